"""Titles are data: their mathematics is shown correctly, and neither TeX nor the browser runs any of it as code."""

import pytest

from rtm.page.html import rich
from rtm.reports.latex import escape
from rtm.reports.mathematics import plain


@pytest.mark.parametrize(
    ("text", "tex", "html", "shown"),
    [
        ("$H<8$", "$H<8$", "<i>H</i>&lt;8", "H<8"),
        ("RTM ($H=16$)", "RTM ($H=16$)", "RTM (<i>H</i> = 16)", "RTM (H=16)"),
        (
            r"$10^{-3}\times\alpha_i$",
            r"$10^{{-3}}\times \alpha _{i}$",
            "10<sup>-3</sup>×α<sub><i>i</i></sub>",
            "10^-3×α_i",
        ),
        ("$4×$", r"$4\times $", "4×", "4×"),
        ("a $5 and $6 b", r"a \$5 and \$6 b", "a $5 and $6 b", "a 5 and 6 b"),
        (r"$\input{x}$", r"\$\textbackslash{}input\{x\}\$", r"$\input{x}$", r"\input{x}"),
        ("$^^5cinput x$", r"\$\textasciicircum{}\textasciicircum{}5cinput x\$", "$^^5cinput x$", "^^5cinput x"),
        ("$x^2^3$", r"\$x\textasciicircum{}2\textasciicircum{}3\$", "$x^2^3$", "x^2^3"),
        ("$x}$", r"\$x\}\$", "$x}$", "x}"),
        ("<b>`a_b`", r"\textless{}b\textgreater{}\texttt{a\_b}", "&lt;b&gt;<code>a_b</code>", "<b>`a_b`"),
    ],
)
def test_texts_in_three_forms(text: str, tex: str, html: str, shown: str) -> None:
    assert (escape(text), str(rich(text)), plain(text)) == (tex, html, shown)
