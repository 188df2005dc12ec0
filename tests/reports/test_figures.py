"""Figures have the right images and numbers in the right places, and the same bytes each time."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support import fake_results
from support.reports import DEMO, PAPER, SMOKE

from rtm.core.errors import UserError
from rtm.reports.figures import MOSAICS, PLOTS, labels, render_figure
from rtm.stages.figure import Figure


@pytest.mark.parametrize("kind", [*MOSAICS, *PLOTS])
def test_every_kind_is_drawn_at_the_smallest_scale_and_again_with_equal_bytes(tmp_path: Path, kind: str) -> None:
    config = (DEMO if kind == "convergence" else SMOKE).at(tmp_path)
    name = next(name for name, figure in config.figures.items() if figure.kind == kind)
    for experiment in config.figures[name].experiments:
        fake_results.write_gallery(config, experiment)
        fake_results.write_curves(config, experiment)
        fake_results.write_results(config, experiment, {}, spread=0.1)
    first = [path.read_bytes() for path in render_figure(config, name)]
    pixels = np.asarray(Image.open(Figure().path(config, "png", figure=name)).convert("L"))
    assert pixels.shape[1] > 1500
    assert pixels.std() > 5
    if kind in ("samples", "sweep"):
        assert first == [path.read_bytes() for path in render_figure(config, name)]


def test_every_figure_of_the_paper_that_holds_data_is_there() -> None:
    kinds: list[str] = [figure.kind for figure in PAPER.figures.values()]
    numbers = {
        "samples": 8,
        "slerp": 2,
        "neighbours": 2,
        "pairs": 3,
    }
    assert {kind: kinds.count(kind) for kind in MOSAICS} == numbers
    assert PAPER.figures["fig_cifar10_sheet"].images == 4000
    for figure in PAPER.figures.values():
        if figure.kind in ("neighbours", "pairs"):
            assert [PAPER.experiment(name).mapper.kind for name in figure.experiments] == ["mlp", "rtm"]


def test_experiments_are_named_by_their_differences() -> None:
    mappers = labels([DEMO.experiment("digits_mlp8"), DEMO.experiment("digits_rtm")])
    assert mappers == {"digits_mlp8": "8-layer MLP", "digits_rtm": "RTM (H=8, L=1)"}
    datasets = labels([PAPER.experiment("shells_imle_rtm"), PAPER.experiment("dog_imle_rtm")])
    assert datasets == {"shells_imle_rtm": "Shells", "dog_imle_rtm": "Dog"}


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("fig_digits_samples", r"galleries/digits_mlp8/seed0\.npz"),
        ("fig_digits_curves", r"training/seed0\.csv"),
        ("fig_digits_sweep", r"digits_rtm/digits/seed0\.json"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, name: str, missing: str) -> None:
    message = f"{missing} does not exist; make it first with `snakemake --cores all -- .*{missing}`"
    with pytest.raises(UserError, match=message):
        render_figure(DEMO.at(tmp_path), name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "name", ["fig_hero", "fig_curves_cifar10", "fig_sweep_cifar10", "fig_precision_recall_cifar10"]
)
def test_what_takes_gpus_is_made_on_a_cluster(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="make it first with `snakemake --profile slurm -- "):
        render_figure(PAPER.at(tmp_path), name)
