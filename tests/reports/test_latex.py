"""Text reaches LaTeX as text."""

import pytest

from rtm.reports import latex


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "50 % of a_b & #1 {x} ~ ^ \\",
            r"50 \% of a\_b \& \#1 \{x\} \textasciitilde{} \textasciicircum{} \textbackslash{}",
        ),
        ("RTM ($H=16$) at 32×32", r"RTM ($H=16$) at 32$\times$32"),
        ("costs $5", r"costs \$5"),
        ("run `rtm x --all`", r"run \texttt{rtm x -{}-all}"),
    ],
)
def test_text_is_escaped(text: str, expected: str) -> None:
    assert latex.escape(text) == expected


def test_a_break_of_a_line_is_kept_and_each_line_escaped() -> None:
    assert latex.stacked("a_b") == r"a\_b"
    assert latex.stacked("FID\n50 %", "l") == r"\makecell[l]{FID \\ 50 \%}"


def test_macro_names_are_letters_and_tell_names_apart() -> None:
    assert latex.macro_name("tab_cifar10", "imle_rtm", "fid") == "TabCifarOneZeroImleRtmFid"
    names = [latex.macro_name("tab", f"H{steps}", metric) for steps in range(100) for metric in ("fid", "fid_std")]
    assert len(set(names)) == len(names)
    assert all(name.isalpha() and name.isascii() for name in names)
