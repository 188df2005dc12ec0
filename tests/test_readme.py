"""README and docs/: links have a target, commands of `rtm` exist with their options, the picture has its receipt."""

import csv
import re
import shlex
from pathlib import Path

import pytest
from support import ROOT

from rtm.cli.main import _parser
from rtm.core.files import digest, read_json

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(re.sub(r"```.*?```", "", page.read_text(), flags=re.S)):
        place, _, anchor = link.partition("#")
        if re.match(r"\w+://", link):
            continue
        target = (page.parent / place) if place else page
        assert target.exists(), f"{page.name}: {link}"
        if anchor and target.suffix == ".md":
            titles = re.findall(r"^#+ (.*)$", target.read_text(), re.M)
            assert anchor in {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}, link


@pytest.mark.parametrize("page", ["README.md", "docs/tour.md", "docs/workstation.md"])
def test_commands_exist_with_their_options(page: str) -> None:
    blocks = re.findall(r"```\n(.*?)```", (ROOT / page).read_text(), re.S)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    commands = [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("rtm ")]
    assert commands
    for words in commands:
        _parser().parse_args(words)


def test_the_picture_is_the_one_of_its_receipt() -> None:
    receipt = read_json(ROOT / "docs/samples.json")
    (figure,) = [path for path in receipt["outputs"] if path.endswith(".png")]
    assert receipt["outputs"][figure]["md5"] == digest(ROOT / "docs/samples.png", "md5")


def _spread(found: dict[str, float], metric: str, times: int, digits: int) -> str:
    """Mean ± standard deviation, as written in the pages."""
    return " ± ".join(f"{found[key] * times:.{digits}f}".removeprefix("0") for key in (metric, f"{metric}_std"))


@pytest.mark.parametrize(
    ("page", "section", "names"),
    [
        ("README.md", "desk_held_out", ["desk_mlp8", "desk_rtm"]),
        ("docs/results.md", "desk_held_out", ["desk_mlp8", "desk_rtm", "desk_mlp24"]),
        ("docs/results.md", "desk", ["desk_mlp8", "desk_rtm"]),
    ],
)
def test_the_numbers_of_the_desk_are_those_of_its_results(page: str, section: str, names: list[str]) -> None:
    text = (ROOT / page).read_text()
    for name in names:
        summary = read_json(ROOT / f"desk/results/{name}/metrics.json")
        found = summary[section]
        shares = [_spread(found, metric, 1, 3) for metric in ("precision", "recall", "density", "coverage")]
        cells = [f"{summary['latency']['mapper_parameters']:,.0f}", *shares]
        cells += [_spread(found, "kid", 1000, 1), _spread(found, "fid", 1, 1)]
        assert f"| {' | '.join(cells)} |" in text, (page, name)


GANS = [f"stylegan2_ada_{mapper}" for mapper in ("mlp", "mlp16", "mlp32", "rtm")]


@pytest.mark.parametrize("kind", ["rtm_h1", "mlp8_torch", "classes_mlp8", "classes_rtm", *GANS])
def test_the_numbers_of_one_seed_are_those_of_their_results(kind: str) -> None:
    summary = read_json(ROOT / f"desk/results/desk_{kind}/metrics.json")
    found = summary["desk_held_out"]
    shares = [f"{found[metric]:.3f}".removeprefix("0") for metric in ("precision", "recall", "density", "coverage")]
    cells = [f"{summary['latency']['mapper_parameters']:,.0f}", *shares]
    cells += [f"{found['kid'] * 1000:.1f}", f"{found['fid']:.1f}"]
    assert f"| {' | '.join(cells)} |" in (ROOT / "docs/results.md").read_text()


@pytest.mark.parametrize("H", [4, 8, 16, 32])
def test_the_sweep_over_steps_is_that_of_the_results(H: int) -> None:
    lines = (ROOT / "desk/results/desk_rtm/sweep.csv").read_text().splitlines()
    (row,) = [row for row in csv.DictReader(lines) if row["H"] == str(H)]
    found = {key.removeprefix("desk_held_out."): float(value) for key, value in row.items()}
    shown = [_spread(found, "kid", 1000, 1), _spread(found, "fid", 1, 1)]
    shown += [_spread(found, metric, 1, 3) for metric in ("precision", "recall")]
    assert f"| {H} | {' | '.join(shown)} |" in (ROOT / "docs/results.md").read_text()


@pytest.mark.parametrize(
    ("table", "reference"), [("tab_desk_held_out", "1,000 other horses"), ("tab_desk", "the 100 horses")]
)
def test_the_differences_are_those_of_the_tables(table: str, reference: str) -> None:
    note = (ROOT / f"desk/reports/{table}.md").read_text().partition("paired seeds: ")[2].partition("\n")[0]
    (row,) = [line for line in (ROOT / "docs/results.md").read_text().splitlines() if line.startswith(f"| {reference}")]
    written = [re.sub("(?<=[−+])0(?=[.])", "", number) for number in re.findall(r"[−+]\d+[.]\d+", note)]
    assert re.findall(r"−?\d*[.]\d+", row) == [number.removeprefix("+") for number in written]
    assert len(written) == 18


def test_the_differences_to_the_mlp_of_equal_depth_are_those_of_the_table() -> None:
    notes = (ROOT / "desk/reports/tab_desk_controls.md").read_text().splitlines()
    (note,) = [line for line in notes if "minus 24-layer MLP" in line]
    lines = (ROOT / "docs/results.md").read_text().splitlines()
    (shown,) = [line for line in lines if line.startswith("Differences RTM − 24-layer MLP")]
    written = [float(number.replace("−", "-")) for number in re.findall(r"[−+]\d+[.]\d+", note)]
    numbers = re.findall(r"[−+]?\d*[.]\d+", shown.partition("seeds: ")[2])
    assert [float(number.replace("−", "-")) for number in numbers] == written and len(written) == 18
    assert all(low * high > 0 for low, high in zip(written[1::3], written[2::3], strict=True))  # none includes 0
    deep = read_json(ROOT / "desk/results/desk_mlp24/metrics.json")["desk_held_out"]
    assert f"An MLP as deep as RTM has FID {_spread(deep, 'fid', 1, 1)} " in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("numbers", ["digits.csv", "digits_amd.csv"])
@pytest.mark.parametrize("name", ["digits_mlp8", "digits_mlp16", "digits_rtm_h1", "digits_rtm"])
def test_the_digits_are_those_of_the_demo(name: str, numbers: str) -> None:
    with (ROOT / "docs" / numbers).open() as file:
        cells = {row["column"]: row for row in csv.DictReader(file) if row["row"] == name}
    found = {key: float(cells[key]["value"]) for key in cells} | {
        f"{key}_std": float(cells[key]["std"] or 0) for key in cells
    }
    shown = [_spread(found, metric, 1, 3) for metric in ("precision", "recall", "coverage", "sure")]
    assert f" | {' | '.join([*shown, _spread(found, 'fid', 1, 1)])} |" in (ROOT / "docs/results.md").read_text()


def test_what_both_processors_show_is_the_difference_of_their_means() -> None:
    means = []
    for numbers in ("digits.csv", "digits_amd.csv"):
        with (ROOT / "docs" / numbers).open() as file:
            means.append({(row["row"], row["column"]): float(row["value"]) for row in csv.DictReader(file)})
    (line,) = [each for each in (ROOT / "docs/results.md").read_text().splitlines() if each.startswith("- Both show:")]
    pairs = [("digits_rtm_h1", "precision"), ("digits_mlp8", "coverage"), ("digits_mlp16", "coverage")]
    expected = [found["digits_rtm", metric] - found[base, metric] for base, metric in pairs for found in means]
    shown = [float(number.replace("−", "-")) for number in re.findall(r"[−+][.]\d+", line)]
    assert shown == pytest.approx(expected, abs=0.0006) and len(shown) == 6
