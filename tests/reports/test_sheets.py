"""Filled tables: several seeds, marks, averages, and rows of images that others generated."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import fake_results
from support.reports import DEMO, PAPER, cell_of

from rtm.config import Config, load
from rtm.config.reports import TableEntry
from rtm.core.errors import UserError
from rtm.core.files import write_json
from rtm.reports import latex
from rtm.reports.chain import Chains
from rtm.reports.sheets import build
from rtm.reports.tables import to_csv, to_markdown

FILE = "others.json"


def test_kid_is_shown_in_thousandths(tmp_path: Path) -> None:
    desk = load("desk").at(tmp_path)
    fake_results.write_results(desk, "desk_mlp8", {}, spread=0.1)
    cell = cell_of(desk, "tab_desk", "desk_mlp8", "kid")
    seeds = len(desk.experiment("desk_mlp8").seeds)
    assert cell.value == pytest.approx(0.005)
    assert (cell.text, cell.spread) == ("5.0", f"{5 * np.std(np.linspace(-0.1, 0.1, seeds), ddof=1):.1f}")


def test_several_seeds_give_mean_and_deviation(demo: Config) -> None:
    cell = cell_of(demo, "tab_digits", "digits_mlp8", "fid")
    assert (cell.text, cell.spread) == ("100.0", "10.0")
    assert latex.cell(cell) == r"100.0\,{\scriptsize$\pm$\,10.0}"


@pytest.mark.parametrize(
    ("fids", "marks"), [((3.0, 4.0), ["best", None]), ((3.001, 3.004), ["best", "best"]), ((3.0,), [None, None])]
)
def test_lower_is_better_ties_share_a_mark_and_a_lone_value_has_none(
    tmp_path: Path, fids: tuple[float, ...], marks: list[str | None]
) -> None:
    config = PAPER.at(tmp_path)
    names = config.tables["tab_depth_ablation"].experiments()
    for name, fid in zip(names, fids, strict=False):
        fake_results.write_results(config, name, {"studiogan": {"fid": fid}})
    cells = [cell for cell in build(config, "tab_depth_ablation").cells if cell.column == "fid"]
    assert [cell.mark for cell in cells[:2]] == marks


def test_an_average_over_a_gap_is_a_gap(tmp_path: Path) -> None:
    config = PAPER.at(tmp_path)
    fake_results.write_results(config, "obama_imle_rtm", {"rs_imle": {"fid": 3.0}})
    assert cell_of(config, "tab_fid", "average", "imle_rtm").state == "missing"
    assert cell_of(config, "tab_fid", "average", "fastgan").text == "57.6"


# images that others generated


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableEntry:
    """A table with a row that a file of `rtm evaluate` fills."""
    monkeypatch.chdir(tmp_path)
    columns = [{"title": "FID", "metric": "fid", "better": "lower"}, {"title": "ms", "metric": "time_ms"}]
    rows = [{"title": "Others", "measured": FILE}, {"title": "MLP", "experiment": "digits_mlp8"}]
    fields = {
        "title": "x",
        "label": "x",
        "caption": "x",
        "protocol": "digits",
    }
    return TableEntry.model_validate(fields | {"columns": columns, "groups": [{"rows": rows}]}, strict=False)


def write(**changes: Any) -> None:
    file = {
        "protocol": "digits",
        "samples": 1797,
        "off_protocol": [],
        "metrics": {"fid": 7.0},
        "floor": [5, 6],
    }
    file |= {"intervals": {"fid": [6.5, 7.5]}, "provenance": {"extractors": {}}}
    file |= {"images": {"name": "noise/", "sha256": "a"}, "reference": {"name": "digits", "sha256": "b"}}
    write_json(FILE, file | changes)


def test_a_row_shows_what_was_measured_on_others_images(tmp_path: Path, table: TableEntry) -> None:
    config = DEMO.at(tmp_path)
    write()
    fake_results.write_results(config, "digits_mlp8", {"digits": {"fid": 9.0}})
    sheet = build(config, "x", table)
    fid, time = sheet.lines[0].cells
    assert (fid.state, fid.value, fid.sampling, fid.mark, time.state) == ("evaluated", 7, 0.5, "best", "unreported")
    assert latex.cell(fid) == r"\textbf{7.000}$^\ddagger$"
    assert "**7.000**‡" in to_markdown(sheet)
    assert "‡: measured here on images that others generated." in sheet.notes
    assert ",evaluated,others.json," in to_csv(sheet)
    chains = Chains(config)
    assert chains.origin(sheet, fid) == "Measured here on images that others generated: others.json."
    assert [(link.kind, link.what) for link in chains.of(fid.part)] == [
        ("metrics", FILE),
        ("images", "noise/"),
        ("reference", "digits"),
    ]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"off_protocol": ["9 images instead of 1,797"]}, r"is off protocol \(9 images instead of 1,797\)"),
        ({"protocol": "paper"}, "is of protocol 'paper', not 'digits'"),
        ({"metrics": {"fid": "7"}}, "is damaged"),
    ],
)
def test_other_files_fill_no_table(tmp_path: Path, table: TableEntry, changes: dict[str, Any], problem: str) -> None:
    write(**changes)
    command = "make it again with `rtm evaluate IMAGES DATASET --protocol digits --json others.json`"
    with pytest.raises(UserError, match=f"others.json {problem}.*{command}"):
        build(DEMO.at(tmp_path), "x", table)


def test_a_missing_file_is_a_gap_with_its_command(tmp_path: Path, table: TableEntry) -> None:
    config = DEMO.at(tmp_path)
    fake_results.write_results(config, "digits_mlp8", {})
    sheet = build(config, "x", table)
    command = "`rtm evaluate IMAGES DATASET --protocol digits --json others.json`"
    assert f"∗: others.json is not here; {command} makes it." in sheet.notes
    assert Chains(config).origin(sheet, sheet.cells[0]) == f"Not measured yet; {command} measures it."
