"""Foreign text in a message is on one line, without characters that control a terminal."""

import pytest

from rtm.core.errors import fail, printable, reason_of


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain \u732b \u00e9", "plain \u732b \u00e9"),
        ("two\nlines\r", r"two\nlines\r"),
        ("\x1b[2Jgone", r"\x1b[2Jgone"),
        ("\u202egnp.exe", r"\u202egnp.exe"),  # a terminal would show it from right to left
        ("\udcff.png", r"\udcff.png"),  # a file name that is not UTF-8
        (7, "7"),
    ],
)
def test_a_text_from_outside_is_one_line_without_controls(text: object, shown: str) -> None:
    assert printable(text) == shown
    assert shown.encode()


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("\n  first\nsecond"), "first"),
        (KeyError(), "KeyError"),
        (OSError(" \n"), "OSError"),
        (RuntimeError("x" * 1000), "x" * 200),
        (RuntimeError("\x1b[31mred"), r"\x1b[31mred"),
    ],
    ids=repr,
)
def test_the_reason_is_the_first_line_or_the_kind(error: Exception, reason: str) -> None:
    assert reason_of(error) == reason


def test_a_failure_ends_the_command_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        fail("x is missing")
    assert ended.value.code == 1
    assert capsys.readouterr() == ("", "rtm: x is missing\n")
