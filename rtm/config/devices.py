"""GPUs as `params/devices.yaml` describes them."""

from typing import Annotated

from pydantic import Field

from rtm.config.base import Count, Positive, Strict

Share = Annotated[float, Field(gt=0, le=1)]


class Tflops(Strict):
    """Products of dense matrices, 10^12 operations a second, by the format of the factors."""

    bfloat16: Positive
    tf32: Positive
    float32: Positive
    float64: Positive

    def of(self, precision: str) -> float:
        return float(getattr(self, "bfloat16" if precision == "float16" else precision))


class Device(Strict):
    title: str
    memory_gib: Positive  # that programs can use
    tflops: Tflops
    bandwidth_tb: Positive  # TB/s of its memory
    link_gb: Positive  # GB/s to the other GPUs of a node, one way
    network_gb: Positive  # GB/s to GPUs of other nodes
    compute_reach: Share = 0.6  # share of `tflops` that large products reach
    memory_reach: Share = 0.8  # share of `bandwidth_tb` that kernels reach
    kernel_us: Positive = 2.0  # time of the shortest kernel
    launch_us: Positive = 5.0  # time of the CPU to launch a kernel; if kernels are shorter, the GPU waits for the CPU
    node: Count = 8  # GPUs in one node
