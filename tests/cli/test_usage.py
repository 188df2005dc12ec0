"""Help texts fit a terminal of 80 columns."""

import argparse

import pytest
from support.command import rtm

from rtm.cli.main import BY_NAME
from rtm.cli.usage import Help


@pytest.mark.parametrize("verb", BY_NAME)
def test_every_verb_explains_itself_within_the_screen(verb: str) -> None:
    answer = rtm(verb, "--help")  # with 80 columns
    lines = answer.stdout.splitlines()
    assert answer.returncode == 0
    assert lines[0].startswith(f"usage: rtm {verb}")
    assert max(map(len, lines)) <= 80


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
