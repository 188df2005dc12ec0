"""README and docs/: links have a target, commands of `rtm` exist with their options, and numbers are those of files."""

import csv
import re
import shlex
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest
from support import ROOT

from rtm.cli.main import parser
from rtm.core.files import digest
from rtm.core.readers import read_json

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")
SIGNED = re.compile(r"[−+]\d*[.]\d+")
SHARES = ("precision", "recall", "density", "coverage")
Row = Mapping[str, float]


@cache
def text(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


def lines(page: str, start: str) -> list[str]:
    return [line for line in text(page).splitlines() if line.startswith(start)]


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.S)
    for link in LINK.findall(prose):
        place, _, anchor = link.partition("#")
        if re.match(r"\w+://", link):
            continue
        target = (page.parent / place) if place else page
        assert target.exists(), f"{page.name}: {link}"
        assert not anchor or target.suffix != ".md" or anchor in anchors(target), link


def commands(page: Path) -> list[list[str]]:
    """The words after `rtm`, in the page's blocks."""
    blocks = re.findall(r"```\n(.*?)```", page.read_text("utf-8"), re.S)
    without_remarks = [re.split(r" {2,}", line)[0] for block in blocks for line in block.splitlines()]
    typed = [line.removeprefix("$ ") for line in without_remarks]
    alone = [line for line in typed if re.match(r"rtm [a-z-]", line) and "&&" not in line]
    return [shlex.split(line, comments=True)[1:] for line in alone]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_exist_with_their_options(page: Path) -> None:
    assert commands(page) or page.name not in ("README.md", "tour.md")
    for words in commands(page):
        arguments, changes = parser().parse_known_args(words)
        assert not changes or "changes" in arguments
        assert all("=" in change for change in changes)


def test_the_picture_is_the_one_of_its_receipt() -> None:
    receipt = read_json(ROOT / "docs/samples.json")
    (figure,) = [path for path in receipt["outputs"] if path.endswith(".png")]
    assert receipt["outputs"][figure]["md5"] == digest(ROOT / "docs/samples.png", "md5")


def number(value: float, digits: int = 3) -> str:
    """A number as the pages write it."""
    return f"{value:.{digits}f}".removeprefix("0")


def spread(row: Row, metric: str, times: int = 1, digits: int = 3) -> str:
    """Mean ± standard deviation, or the value of one seed."""
    keys = [key for key in (metric, f"{metric}_std") if key in row]
    return " ± ".join(number(row[key] * times, digits) for key in keys)


def cells_of_the_desk(name: str, section: str) -> str:
    summary = read_json(ROOT / f"desk/results/{name}/metrics.json")
    row = summary[section]
    shares = [spread(row, metric) for metric in SHARES]
    distances = [spread(row, "kid", 1000, 1), spread(row, "fid", 1, 1)]
    parameters = f"{summary['latency']['mapper_parameters']:,.0f}"
    return f"| {' | '.join([parameters, *shares, *distances])} |"


GANS = [f"desk_stylegan2_ada_{mapper}" for mapper in ("mlp", "mlp16", "mlp32", "rtm")]
ONE_SEED = ["desk_rtm_h1", "desk_mlp8_torch", "desk_classes_mlp8", "desk_classes_rtm", *GANS]


@pytest.mark.parametrize(
    ("page", "section", "names"),
    [
        ("README.md", "desk_held_out", ["desk_mlp8", "desk_rtm"]),
        ("docs/results.md", "desk_held_out", ["desk_mlp8", "desk_rtm", "desk_mlp24", *ONE_SEED]),
        ("docs/results.md", "desk", ["desk_mlp8", "desk_rtm"]),
    ],
)
def test_the_numbers_of_the_desk_are_those_of_its_results(page: str, section: str, names: list[str]) -> None:
    for name in names:
        assert cells_of_the_desk(name, section) in text(page), name


@pytest.mark.parametrize("H", [4, 8, 16, 32])
def test_the_sweep_over_steps_is_that_of_the_results(H: int) -> None:
    rows = csv.DictReader(text("desk/results/desk_rtm/sweep.csv").splitlines())
    (cells,) = [row for row in rows if row["H"] == str(H)]
    row = {key.removeprefix("desk_held_out."): float(value) for key, value in cells.items()}
    distances = [spread(row, "kid", 1000, 1), spread(row, "fid", 1, 1)]
    shares = [spread(row, "precision"), spread(row, "recall")]
    assert f"| {H} | {' | '.join([*distances, *shares])} |" in text("docs/results.md")


def signed(line: str) -> list[float]:
    return [float(word.replace("−", "-")) for word in SIGNED.findall(line)]


@pytest.mark.parametrize(
    ("table", "reference"), [("tab_desk_held_out", "1,000 other horses"), ("tab_desk", "the 100 horses")]
)
def test_the_differences_are_those_of_the_tables(table: str, reference: str) -> None:
    note = text(f"desk/reports/{table}.md").partition("paired seeds: ")[2].partition("\n")[0]
    (row,) = lines("docs/results.md", f"| {reference}")
    shown = [float(word.replace("−", "-")) for word in re.findall(r"−?\d*[.]\d+", row)]
    assert shown == signed(note)
    assert len(shown) == 18


def test_the_differences_to_the_mlp_of_equal_depth_are_those_of_the_table() -> None:
    notes = text("desk/reports/tab_desk_controls.md").splitlines()
    (note,) = [line for line in notes if "minus 24-layer MLP" in line]
    (shown,) = lines("docs/results.md", "Differences RTM − 24-layer MLP")
    words = re.findall(r"[−+]?\d*[.]\d+", shown.partition("seeds: ")[2])
    written = signed(note)
    assert [float(word.replace("−", "-")) for word in words] == written
    assert len(written) == 18
    assert all(low * high > 0 for low, high in zip(written[1::3], written[2::3], strict=True))  # none includes 0
    deep = read_json(ROOT / "desk/results/desk_mlp24/metrics.json")["desk_held_out"]
    assert f"An MLP as deep as RTM has FID {spread(deep, 'fid', 1, 1)} " in text("README.md")


def digits(file: str) -> dict[str, dict[str, float]]:
    """The metrics of the demo by row: means, and standard deviations with _std."""
    rows: dict[str, dict[str, float]] = {}
    for cell in csv.DictReader(text(file).splitlines()):
        row = rows.setdefault(cell["row"], {})
        row[cell["column"]] = float(cell["value"])
        row[f"{cell['column']}_std"] = float(cell["std"] or 0)
    return rows


@pytest.mark.parametrize("name", ["digits_mlp8", "digits_mlp16", "digits_rtm_h1", "digits_rtm"])
def test_the_digits_are_those_of_the_demo(name: str) -> None:
    row = digits("docs/digits.csv")[name]
    shares = [spread(row, metric) for metric in ("precision", "recall", "coverage", "sure")]
    assert f" | {' | '.join([*shares, spread(row, 'fid', 1, 1)])} |" in text("docs/results.md")


def test_the_other_processors_distances_are_those_of_its_file() -> None:
    (line,) = lines("docs/results.md", "**On another processor**")
    rows = digits("docs/digits_amd.csv")
    for name in ("digits_rtm", "digits_mlp8"):
        assert spread(rows[name], "fid", 1, 1) in line


def test_what_both_processors_show_is_the_difference_of_their_means() -> None:
    (line,) = lines("docs/results.md", "- Both show:")
    both = [digits(file) for file in ("docs/digits.csv", "docs/digits_amd.csv")]
    pairs = [("digits_rtm_h1", "precision"), ("digits_mlp8", "coverage"), ("digits_mlp16", "coverage")]
    expected = [rows["digits_rtm"][metric] - rows[base][metric] for base, metric in pairs for rows in both]
    assert signed(line) == pytest.approx(expected, abs=0.0006)
    assert len(expected) == 6
