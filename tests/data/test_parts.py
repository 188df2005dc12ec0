"""Missing parts of a weights file are reported before they are needed."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from support.networks import offer

from rtm.config import Config, load
from rtm.core.errors import UserError
from rtm.data.parts import check_parts, lacking
from rtm.stages.network import Network


def test_a_file_says_what_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch)
    save_file({"head.weight": torch.zeros(1)}, tmp_path / "whole.safetensors")
    save_file({"body.weight": torch.zeros(1)}, tmp_path / "part.safetensors")
    assert (lacking("inception", tmp_path / "whole.safetensors"), lacking("digit_classifier", tmp_path)) == ("", "")
    assert lacking("inception", tmp_path / "part.safetensors") == "a head"


def weights_at(config: Config) -> Callable[[str], Path]:
    return lambda network: Network().path(config, "weights", network=network)


def test_a_training_that_could_not_be_measured_does_not_start(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = load("paper")
    monkeypatch.chdir(tmp_path)
    few, many = (
        next(each for each in config.experiments.values() if protocol in each.recipe.evaluation.protocols)
        for protocol in ("rs_imle", "paper")
    )
    # no file is here yet; it may still come before the metrics need it
    check_parts(few.name, config.protocols(few), weights_at(config))
    (tmp_path / "weights").mkdir()
    save_file({"features.0.weight": torch.zeros(1)}, Network().path(config, "weights", network="vgg16"))
    save_file({"Conv2d_1a_3x3.conv.weight": torch.zeros(1)}, Network().path(config, "weights", network="inception"))
    with pytest.raises(UserError, match=rf"{few.name} is measured by protocol rs_imle, but .*vgg16\.safetensors lacks"):
        check_parts(few.name, config.protocols(few), weights_at(config))
    check_parts(many.name, config.protocols(many), weights_at(config))
    assert "inception.safetensors lacks the classes of the Inception score" in capsys.readouterr().err
