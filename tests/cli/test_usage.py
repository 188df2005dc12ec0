"""Help texts fit a terminal of 80 columns."""

import argparse

import pytest
from support.command import rtm

from rtm.cli.main import _parser
from rtm.cli.usage import Help

VERBS = next(list(each.choices) for each in _parser()._actions if isinstance(each, argparse._SubParsersAction))


@pytest.mark.parametrize("verb", VERBS)
def test_no_line_is_wider_than_the_screen(verb: str) -> None:
    lines = rtm(verb, "--help").stdout.splitlines()  # `rtm` runs with 80 columns
    assert lines and max(map(len, lines)) <= 80


def test_a_long_line_goes_on_below_its_explanation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    epilog = "rtm clean     remove what nothing needs any more\n\na text that is longer than one line of a screen"
    words = argparse.ArgumentParser(formatter_class=Help, epilog=epilog).format_help().splitlines()[-5:]
    assert words == [
        "rtm clean     remove what nothing",
        "              needs any more",
        "",
        "a text that is longer than one line of",
        "a screen",
    ]
