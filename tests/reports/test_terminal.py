"""Tables in the terminal, with colours and in a pipe."""

import io

import pytest
from rich.console import Console
from support.reports import DEMO, PAPER

from rtm.config import Config
from rtm.reports.sheets import build
from rtm.reports.terminal import print_table


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("name", [*PAPER.tables, *DEMO.tables])
def test_it_is_shown_within_80_columns(reproduced: Config, demo: Config, name: str, terminal: bool) -> None:
    console = Console(width=80, record=True, file=io.StringIO(), force_terminal=terminal)
    sheet = build(demo if name in DEMO.tables else reproduced, name)
    print_table(sheet, console)
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= 80
    for cell in sheet.cells:
        assert any(cell.text in line for line in lines)


def test_a_pipe_shows_marks_without_bold(reproduced: Config) -> None:
    console = Console(width=80, file=(shown := io.StringIO()))
    print_table(build(reproduced, "tab_cifar10"), console)
    assert "[0.896]" in shown.getvalue()
    assert "(0.853)" in shown.getvalue()
    assert "[1.86°]" in shown.getvalue()
    assert "°: published by others" in shown.getvalue()
    assert "Bold" not in shown.getvalue()
