"""The verbs that show results: a complete result gets a receipt, and an incomplete one does not."""

import json
from pathlib import Path

import pytest
from support import PARAMS, fake_results
from support.command import rtm

from rtm.config import load
from rtm.core.layout import Layout

DEMO = load("demo", PARAMS)
TABLE, FIGURE = "tab_digits_halt_sweep", "fig_digits_sweep"
LAYOUT = DEMO.layout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "params").symlink_to(PARAMS)
    return tmp_path


def measure(folder: Path) -> None:
    layout = Layout(folder / LAYOUT.root, folder)
    fake_results.write_results(DEMO, layout, "digits_rtm", {"digits_H8": {"fid": 87.6}}, spread=0.1)


def shown(folder: Path, *words: str) -> str:
    answer = rtm(*words, "--scale", "demo", cwd=folder)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_a_table_with_gaps_is_printed_and_not_signed_for(folder: Path) -> None:
    receipt = folder / LAYOUT.receipt("table", TABLE)
    assert "--∗" in shown(folder, "table", TABLE, "--available")
    assert (folder / LAYOUT.table(TABLE)).exists() and not receipt.exists()
    answer = rtm("table", TABLE, "--scale", "demo", cwd=folder)
    assert answer.returncode == 1 and "needs results of digits_rtm" in answer.stderr and not receipt.exists()
    measure(folder)
    assert "87.6" in shown(folder, "table", TABLE) and receipt.exists()


def test_a_figure_is_signed_for(folder: Path) -> None:
    measure(folder)
    assert shown(folder, "figure", FIGURE) == ""
    assert (folder / LAYOUT.figure(FIGURE)).exists() and (folder / LAYOUT.receipt("figure", FIGURE)).exists()


def test_the_page_and_the_schema_are_printed(folder: Path) -> None:
    assert shown(folder, "report") == f"{LAYOUT.page()}\n"
    assert (folder / LAYOUT.page()).exists() and (folder / LAYOUT.receipt("report", "index")).exists()
    assert json.loads(rtm("schema", cwd=folder).stdout) == json.loads((PARAMS / "schema.json").read_text())
