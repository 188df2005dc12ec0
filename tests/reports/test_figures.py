"""Figures have the right images and numbers in the right places, and the same bytes each time."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support import fake_results
from support.reports import DEMO, PAPER, SMOKE

from rtm.core.errors import UserError
from rtm.core.layout import Layout
from rtm.reports.figures import labels, render_figure


@pytest.mark.parametrize("name", DEMO.figures)
def test_the_demos_figures_are_drawn(demo: Layout, name: str) -> None:
    for path in render_figure(DEMO, demo, name):
        assert path.stat().st_size > 5000
    pixels = np.asarray(Image.open(demo.figure(name, ".png")).convert("L"))
    assert pixels.shape[1] > 1500 and pixels.std() > 5


@pytest.mark.parametrize(
    "kind", ["samples", "slerp", "neighbours", "pairs", "curves", "progress", "sweep", "precision_recall", "rejected"]
)
def test_every_kind_is_drawn_at_the_smallest_scale(tmp_path: Path, kind: str) -> None:
    name = next(name for name, figure in SMOKE.figures.items() if figure.kind == kind)
    layout = Layout(tmp_path, tmp_path)
    for each in SMOKE.figures[name].experiments:
        fake_results.write_gallery(SMOKE, layout, each)
        fake_results.write_curves(SMOKE, layout, each)
        fake_results.write_results(SMOKE, layout, each, {}, spread=0.1)
    assert all(path.exists() for path in render_figure(SMOKE, layout, name))


@pytest.mark.parametrize("name", ["fig_digits_samples", "fig_digits_sweep"])
def test_drawing_again_changes_no_byte(demo: Layout, name: str) -> None:
    before = [path.read_bytes() for path in render_figure(DEMO, demo, name)]
    assert before == [path.read_bytes() for path in render_figure(DEMO, demo, name)]


def test_every_figure_of_the_paper_that_holds_data_is_there() -> None:
    kinds = [figure.kind for figure in PAPER.figures.values()]
    assert kinds.count("samples") == 8 and kinds.count("slerp") == 2
    assert kinds.count("neighbours") == 2 and kinds.count("pairs") == 3
    assert PAPER.figures["fig_cifar10_sheet"].images == 4000
    for each in PAPER.figures.values():
        if each.kind in ("neighbours", "pairs"):
            baseline, ours = (PAPER.experiment(name) for name in each.experiments)
            assert baseline.mapper.kind == "mlp" and ours.mapper.kind == "rtm"


def test_experiments_are_named_by_their_differences() -> None:
    same = labels([DEMO.experiment("digits_mlp8"), DEMO.experiment("digits_rtm")])
    assert same == {"digits_mlp8": "8-layer MLP", "digits_rtm": "RTM (H=8, L=1)"}
    sets = labels([PAPER.experiment("shells_imle_rtm"), PAPER.experiment("dog_imle_rtm")])
    assert sets == {"shells_imle_rtm": "Shells", "dog_imle_rtm": "Dog"}


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("fig_digits_samples", r"galleries/digits_mlp8/seed0\.npz"),
        ("fig_digits_curves", r"training/seed0\.csv"),
        ("fig_digits_sweep", r"digits_rtm/metrics\.json"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, name: str, missing: str) -> None:
    with pytest.raises(
        UserError, match=f"{missing} does not exist; make it first with `snakemake --cores all -- .*{missing}`"
    ):
        render_figure(DEMO, Layout(tmp_path, tmp_path), name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "name", ["fig_hero", "fig_curves_cifar10", "fig_sweep_cifar10", "fig_precision_recall_cifar10"]
)
def test_what_takes_gpus_is_made_on_a_cluster(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="make it first with `snakemake --profile slurm -- "):
        render_figure(PAPER, Layout(tmp_path, tmp_path), name)
