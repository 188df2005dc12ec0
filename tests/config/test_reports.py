"""Tables and figures: the source of each cell, and entries that are refused because nothing can fill them."""

import itertools
import shutil
from pathlib import Path

import pytest
from support import ROOT
from support.reports import figure

from rtm.config import load
from rtm.config.catalogue import METRICS
from rtm.config.reports import Published, TableEntry
from rtm.core.errors import UserError

PLACES = ("table", "group", "row", "column")  # each overrides the places before it


TWO_PROTOCOLS = {
    "title": "x",
    "label": "x",
    "caption": "x",
    "columns": [{"title": "FID", "metric": "fid"}],
    "groups": [
        {
            "rows": [
                {"title": "a", "experiment": "a", "protocol": "paper"},
                {"title": "b", "experiment": "b", "protocol": "studiogan"},
            ]
        }
    ],
}


def test_protocols_are_not_mixed_unless_the_table_says_so() -> None:
    with pytest.raises(ValueError, match="different protocols"):
        TableEntry.model_validate(TWO_PROTOCOLS, strict=False)
    assert TableEntry.model_validate(TWO_PROTOCOLS | {"mixed_protocols": True}, strict=False).mixed_protocols


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("published: cifar10_ddpm}", "published: nobody}", "no published entry 'nobody'"),
        ("experiment: cifar10_imle_mlp,", "experiment: cifar11,", "no experiment 'cifar11'"),
        ("variant: H64, paper: paper_cifar10", "variant: H65, paper: paper_cifar10", "no variant 'H65'"),
        ("label: tab:cifar10\n", "label: tab:cifar10\n    experiment: x\n", "exactly one of experiment, measured"),
        ("protocol: rs_imle\n    metric: fid", "protocol: studiogan\n    metric: fid", "no protocol 'studiogan'"),
        ("metric: precision, better: higher}\n", "better: higher}\n", "give a metric"),
        ("metric: precision, better: higher}\n", "metric: precison}\n", "no metric 'precison'; did you mean precision"),
        (
            "metric: precision, better: higher}\n",
            "metric: precision, better: lower}\n",
            "of precision, higher is better",
        ),
    ],
)
def test_an_impossible_table_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    folder = shutil.copytree(ROOT / "params", tmp_path / "params")
    text = (folder / "tables.yaml").read_text("utf-8")
    assert old in text
    (folder / "tables.yaml").write_text(text.replace(old, new, 1), "utf-8")
    with pytest.raises(UserError, match=message):
        load("paper", folder)


def test_a_figure_needs_what_its_kind_reads() -> None:
    with pytest.raises(ValueError, match="a sweep needs a protocol"):
        figure("sweep")
    with pytest.raises(ValueError, match="precision_recall needs a table"):
        figure("precision_recall")


@pytest.mark.parametrize("given", [each for n in range(1, 5) for each in itertools.combinations(PLACES, n)], ids=str)
def test_a_column_overrides_its_row_and_a_row_its_group_and_table(given: tuple[str, ...]) -> None:
    part: dict[str, dict[str, str]] = {place: {"protocol": place} if place in given else {} for place in PLACES}
    row = {"title": "a", "experiment": "{key}_a", "key": "cats", **part["row"]}
    group = {"rows": [row], "key": "dogs", **part["group"]}
    column = {"title": "FID", "metric": "fid", **part["column"]}
    table = {"title": "x", "label": "x", "caption": "x", "columns": [column], "groups": [group], **part["table"]}
    (cell,) = TableEntry.model_validate(table, strict=False).cells
    assert (cell.protocol, cell.section, cell.experiment, cell.metric) == (given[-1], given[-1], "cats_a", "fid")


@pytest.mark.parametrize(
    ("metric", "variant", "section"),
    [
        ("fid", None, "paper"),
        ("fid", "native", "paper"),
        ("fid", "H8", "paper_H8"),
        ("time_ms", "H8", "latency_H8"),
        ("mapper_parameters", "H8", "latency"),  # the same at every depth
    ],
)
def test_a_cell_is_read_from_the_section_of_its_measurement(metric: str, variant: str | None, section: str) -> None:
    row = {"title": "a", "experiment": "a", "protocol": "paper"} | ({"variant": variant} if variant else {})
    column = {"title": "x", "metric": metric}
    table = {"title": "x", "label": "x", "caption": "x", "columns": [column], "groups": [{"rows": [row]}]}
    assert [cell.section for cell in TableEntry.model_validate(table, strict=False).cells] == [section]


@pytest.mark.parametrize("name", [row.name for row in METRICS.values() if row.share and row.section == "protocol"])
def test_a_published_share_is_at_most_one(name: str) -> None:
    assert Published(source="a paper", values={name: 1.0, "fid": 7.0}).values[name] == 1
    with pytest.raises(ValueError, match=f"{name} must lie between 0 and 1"):
        Published(source="a paper", values={name: 67.4})
