"""Figures hold the right images and numbers in the right places, with the same bytes each time."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure as Canvas
from PIL import Image
from support import ROOT, fake_results

from rtm.config import Config, load
from rtm.config.reports import Figure
from rtm.core.errors import UserError
from rtm.core.files import write_text
from rtm.core.layout import Layout
from rtm.reports import mosaics, plots
from rtm.reports.figures import labels, render_figure

DEMO, SMOKE, PAPER = (load(scale, ROOT / "params") for scale in ("demo", "smoke", "paper"))
NAMES = ["baseline", "RTM"]


def filled(config: Config, layout: Layout, names: set[str]) -> Layout:
    for name in names:
        fake_results.write_gallery(config, layout, name)
        fake_results.write_curves(config, layout, name)
        fake_results.write_results(config, layout, name, {}, spread=0.1)
    return layout


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    root = tmp_path_factory.mktemp("demo")
    return filled(DEMO, Layout(root, root), set(DEMO.experiments))


def figure(kind: str, **values: Any) -> Figure:
    given = {"kind": kind, "title": "x", "caption": "x", "experiments": ("digits_mlp8", "digits_rtm")} | values
    return Figure.model_validate(given)


def gallery(offset: int, samples: int = 12) -> dict[str, mosaics.Images]:
    """8 px pictures of one shade each: number i of the gallery has shade offset + i."""

    def shades(*shape: int) -> mosaics.Images:
        level = offset + np.arange(np.prod(shape), dtype=np.uint8).reshape(*shape, 1, 1, 1)
        return np.broadcast_to(level, (*shape, 8, 8, 3)).copy()

    queries = np.full((4, 8, 8, 3), 250, np.uint8)
    return {"samples": shades(samples), "slerp": shades(2, 5), "queries": queries, "neighbours": shades(4, 3)}


def shades_of(image: mosaics.Images) -> list[list[int]]:
    """The shades of the tiles, read row by row; white gaps separate the tiles."""
    tiles: list[list[int]] = []
    for row in image[..., 0]:
        levels = [int(level) for level in row if level != mosaics.WHITE]
        distinct = list(dict.fromkeys(levels))
        if distinct and (not tiles or tiles[-1] != distinct):
            tiles.append(distinct)
    return tiles


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
    layout = filled(SMOKE, Layout(tmp_path, tmp_path), set(SMOKE.figures[name].experiments))
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
    for figure in PAPER.figures.values():
        if figure.kind in ("neighbours", "pairs"):
            baseline, ours = (PAPER.experiment(name) for name in figure.experiments)
            assert baseline.mapper.kind == "mlp" and ours.mapper.kind == "rtm"


def test_equal_places_of_a_sheet_hold_the_same_number() -> None:
    chosen = figure("samples", rows=2, columns=3, skip=2)
    left, right = mosaics.samples(chosen, NAMES, [gallery(10), gallery(110)])
    assert (left.title, right.title) == ("baseline", "RTM")
    assert shades_of(left.image) == [[12, 13, 14], [15, 16, 17]]
    assert shades_of(right.image) == [[112, 113, 114], [115, 116, 117]]


def test_a_small_gallery_fills_whole_rows() -> None:
    (sheet,) = mosaics.samples(figure("samples", rows=80, columns=5), NAMES[:1], [gallery(0)])
    assert shades_of(sheet.image) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


def test_the_baseline_stands_above_rtm() -> None:
    (sheet,) = mosaics.pairs(figure("pairs", rows=2, columns=2), NAMES, [gallery(0), gallery(100)])
    assert shades_of(sheet.image) == [[0, 1], [100, 101], [2, 3], [102, 103]]
    assert [label for _, label in sheet.row_labels] == ["baseline", "RTM"] * 2
    for (centre, _), shades in zip(sheet.row_labels, shades_of(sheet.image), strict=True):
        assert sheet.image[round(centre), 0, 0] == shades[0]


def test_strips_keep_their_ends() -> None:
    (strip,) = mosaics.slerp(figure("slerp", rows=2, columns=3), NAMES[:1], [gallery(0)])
    assert shades_of(strip.image) == [[0, 2, 4], [5, 7, 9]]


def test_neighbours_stand_beside_their_query() -> None:
    chosen = figure("neighbours", rows=2, columns=2)
    (sheet,) = mosaics.neighbours(chosen, NAMES, [gallery(0), gallery(100)])
    rows = [row for row in shades_of(sheet.image) if len(row) > 1]
    assert rows == [[250, 0, 1], [250, 100, 101], [250, 3, 4], [250, 103, 104]]


def test_more_than_three_queries_stand_in_two_columns() -> None:
    (sheet,) = mosaics.neighbours(figure("neighbours", rows=4, columns=2), NAMES, [gallery(0), gallery(100)])
    rows = [row for row in shades_of(sheet.image) if len(row) > 1]
    assert rows == [[250, 0, 1, 3, 4], [250, 100, 101, 103, 104], [250, 6, 7, 9, 10], [250, 106, 107, 109, 110]]


def test_neighbours_of_different_queries_are_not_compared() -> None:
    other = gallery(100)
    other["queries"][0] = 0
    with pytest.raises(UserError, match="different queries"):
        mosaics.neighbours(figure("neighbours"), NAMES, [gallery(0), other])


def test_large_pictures_shrink_to_what_print_resolves() -> None:
    images = {"samples": np.zeros((4, 512, 512, 3), np.uint8)}
    (sheet,) = mosaics.samples(figure("samples", rows=1, columns=4), NAMES[:1], [images])
    assert 2000 < sheet.image.shape[1] < 2100


def test_a_sweep_shows_the_summary(demo: Layout) -> None:
    canvas = Canvas()
    plots.sweep(canvas, DEMO, demo, DEMO.figures["fig_digits_sweep"], {"digits_rtm": "RTM"})
    for axes, metric in zip(canvas.axes, ("fid", "precision", "recall"), strict=True):
        ((line, _caps, bars),) = axes.containers
        assert list(line.get_xdata()) == [4, 8, 16, 32]
        assert list(line.get_ydata()) == pytest.approx([0.5] * 4)
        low, high = bars[0].get_segments()[0][:, 1]
        assert (high - low) / 2 == pytest.approx(0.05), metric  # seeds at 0.45, 0.5, 0.55


def test_curves_show_the_mean_and_the_range_of_the_seeds(demo: Layout) -> None:
    canvas = Canvas()
    plots.curves(canvas, DEMO, demo, DEMO.figures["fig_digits_curves"], {"digits_rtm": "RTM"})
    loss, share, loss_in_time, _ = canvas.axes
    (line,), (band,) = loss.lines, loss.collections
    assert np.asarray(line.get_xdata())[-1] == 100 and loss.get_xlabel() == "steps"
    assert np.asarray(line.get_ydata())[-1] == pytest.approx(2 / 10 + 0.01)  # seeds add 0, 0.01, 0.02
    border = np.asarray(band.get_paths()[0].vertices)
    last = border[border[:, 0] == 100, 1]
    assert (last.min(), last.max()) == pytest.approx((0.2, 0.22))
    assert share.get_ylabel() == "rejected share of the pool"
    assert np.asarray(loss_in_time.lines[0].get_xdata())[-1] == pytest.approx(30)
    assert loss_in_time.get_ylim() == loss.get_ylim()


def test_a_fast_seed_does_not_cut_the_others(tmp_path: Path) -> None:
    """One seed takes 10 seconds and the others 90: the line ends with the mean of the last step, at the mean time."""
    layout, seconds = Layout(tmp_path, tmp_path), {0: 10, 1: 90, 2: 90}
    for seed, last in seconds.items():
        rows = [f"{step},{last * step / 100},{500 - 4 * step + seed},0.5,0.5" for step in range(10, 101, 10)]
        write_text(layout.curve("digits_rtm", seed), "step,seconds,fid,precision,recall\n" + "\n".join(rows) + "\n")
    canvas = Canvas()
    plots.progress(canvas, DEMO, layout, DEMO.figures["fig_digits_progress"], {"digits_rtm": "RTM"})
    over_steps, over_time = (np.asarray(canvas.axes[place].lines[0].get_xydata())[-1] for place in (0, 3))
    assert over_steps == pytest.approx([100, 101]) and over_time == pytest.approx([190 / 3, 101])


def test_mappers_share_a_panel_and_batches_that_differ_an_axis_of_images(demo: Layout) -> None:
    names = {"digits_mlp8": "MLP", "digits_rtm": "RTM"}
    canvas = Canvas()
    plots.progress(canvas, DEMO, demo, DEMO.figures["fig_digits_progress"], names)
    assert [axes.get_ylabel() for axes in canvas.axes] == ["FID", "precision", "recall"] * 2
    assert all(len(axes.lines) == 2 for axes in canvas.axes)
    fid = canvas.axes[0].lines[0]
    assert list(np.asarray(fid.get_ydata())) == pytest.approx([4, 2, 4 / 3, 1], abs=1e-3)
    assert list(np.asarray(fid.get_xdata())) == [25, 50, 75, 100]
    twice = DEMO.experiment("digits_rtm").recipe.training.batch * 2
    other = replace(DEMO, experiments=dict(DEMO.experiments))
    rtm = other.experiments["digits_rtm"]
    training = rtm.recipe.training.model_copy(update={"batch": twice})
    other.experiments["digits_rtm"] = replace(rtm, recipe=rtm.recipe.model_copy(update={"training": training}))
    canvas = Canvas()
    plots.progress(canvas, other, demo, DEMO.figures["fig_digits_progress"], names)
    first, second = (np.asarray(line.get_xdata())[-1] for line in canvas.axes[0].lines)
    assert canvas.axes[0].get_xlabel() == "images seen" and second == 2 * first == 100 * twice


def test_the_rejected_share_goes_by_rounds(demo: Layout) -> None:
    canvas = Canvas()
    plots.rejected(canvas, DEMO, demo, figure("rejected"), {"digits_rtm": "RTM"})
    (axes,) = canvas.axes
    assert axes.get_xlabel() == "round"
    assert list(np.asarray(axes.lines[0].get_xdata())) == list(range(1, 11))


def test_a_training_of_one_round_is_drawn(tmp_path: Path) -> None:
    layout, names = Layout(tmp_path, tmp_path), SMOKE.figures["fig_rejected_fewshot"].experiments
    for share, name in enumerate(names):
        write_text(layout.curve(name, 0), f"step,seconds,rounds,rejected\n1,1,1,0.{share}\n2,2,1,\n")
    canvas = Canvas()
    plots.rejected(canvas, SMOKE, layout, figure("rejected"), {name: name for name in names})
    (axes,) = canvas.axes
    assert [np.asarray(line.get_xydata()).tolist() for line in axes.lines] == [
        [[1, share / 10]] for share in range(len(names))
    ]
    assert len({line.get_marker() for line in axes.lines} - {"", "None"}) == len(names)
    assert axes.get_ylim()[0] == 0
    assert all(float(tick).is_integer() for tick in axes.get_xticks())


def test_precision_against_recall_separates_ours_from_published(tmp_path: Path) -> None:
    layout, names = Layout(tmp_path, tmp_path), ("cifar10_imle_mlp", "cifar10_imle_rtm")
    for name in names:
        fake_results.write_results(PAPER, layout, name, {"paper": {"precision": 0.9, "recall": 0.7}})
    canvas = Canvas()
    chosen = PAPER.figures["fig_precision_recall_cifar10"]
    plots.precision_recall(canvas, PAPER, layout, chosen, {name: name for name in names})
    hollow = [line for line in canvas.axes[0].lines if line.get_markerfacecolor() == "none"]
    solid = [line for line in canvas.axes[0].lines if line.get_markerfacecolor() != "none"]
    assert len(hollow) == 14 and len(solid) == 2
    assert all(np.array_equal(line.get_xydata(), [[0.7, 0.9]]) for line in solid)


def crossing(first: plots.Points, second: plots.Points) -> bool:
    """Whether two lines from [0] to [1] meet."""

    def side(line: plots.Points, point: plots.Points) -> float:
        (ax, ay), (bx, by) = line[1] - line[0], point - line[0]
        return float(ax * by - ay * bx)

    pairs = ((first, second), (second, first))
    return all(side(line, other[0]) * side(line, other[1]) < 0 for line, other in pairs)


def test_labels_of_a_cluster_do_not_meet() -> None:
    """The methods of the paper's Table 1: leaders neither cross nor lead past another method, labels keep apart."""
    rows = (row for group in PAPER.tables["tab_cifar10"].groups for row in group.rows)
    values = [PAPER.params.published[str(row.published or row.paper)].values for row in rows]
    points = np.array([[each["recall"], each["precision"]] for each in values if "recall" in each])
    points = (points - points.min(0)) / np.ptp(points, axis=0) * (plots.WIDER, 1.0)
    labels = plots.place_labels(points)
    leaders = np.stack([points, labels], 1)
    for one, leader in enumerate(leaders):
        others = np.delete(np.arange(len(points)), one)
        assert not any(crossing(leader, leaders[other]) for other in others)
        assert np.linalg.norm(labels[others] - labels[one], axis=1).min() > 0.06
        outer = leader[0] + np.linspace(0.4, 1, 10)[:, None] * (leader[1] - leader[0])
        assert np.linalg.norm(outer[:, None] - points[others], axis=2).min() > 0.025


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


def test_a_curve_without_its_column_is_refused(tmp_path: Path) -> None:
    layout = Layout(tmp_path, tmp_path)
    for name in SMOKE.figures["fig_rejected_fewshot"].experiments:
        write_text(layout.curve(name, 0), "step,seconds,loss\n1,1,1\n")
    with pytest.raises(UserError, match="none of rejected"):
        render_figure(SMOKE, layout, "fig_rejected_fewshot")


def test_a_figure_needs_what_its_kind_reads() -> None:
    with pytest.raises(ValueError, match="a sweep needs a protocol"):
        figure("sweep")
    with pytest.raises(ValueError, match="precision_recall needs a table"):
        figure("precision_recall")
