"""GPUs of params/devices.yaml: a number in a wrong column fails here."""

import pytest
from support import PARAMS

from rtm.config import load

DEVICES = load("paper", PARAMS).params.devices


@pytest.mark.parametrize("name", DEVICES)
def test_shorter_factors_are_not_slower_and_what_is_nearer_is(name: str) -> None:
    device = DEVICES[name]
    speeds = [device.tflops.of(precision) for precision in ("bfloat16", "tf32", "float32", "float64")]
    assert speeds == sorted(speeds, reverse=True)
    assert 1000 * device.bandwidth_tb > device.link_gb >= device.network_gb
    assert device.tflops.of("float16") == device.tflops.of("bfloat16")
