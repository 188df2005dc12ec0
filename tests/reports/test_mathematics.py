"""Titles are data: mathematics in them is shown right, and nothing in them reaches TeX or the browser as code."""

import os
import shutil
from pathlib import Path

import pytest

from rtm.core.errors import UserError
from rtm.page.html import rich
from rtm.reports.latex import escape
from rtm.reports.mathematics import plain
from rtm.reports.pdf import compile_pdf

PAGE = "\\documentclass{article}\n\\begin{document}\nshown: %s\n\\end{document}\n"


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


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
@pytest.mark.parametrize(
    "text", [r"$\input{secret}$", r"$\immediate\openout3=made.txt$", "$^^5cwrite18{touch made.txt}$"]
)
def test_a_hostile_title_compiles_as_text(tmp_path: Path, text: str) -> None:
    document = tmp_path / "report.tex"
    document.write_text(PAGE % escape(text))
    assert compile_pdf(document).exists()
    assert not (tmp_path / "made.txt").exists()


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
@pytest.mark.parametrize("command", [r"\input{%s}", r"\immediate\openout3=%s \immediate\write3{x}\immediate\closeout3"])
def test_tex_itself_stays_in_its_folder(tmp_path: Path, command: str) -> None:
    """Whatever gets into a document, pdflatex reads and writes nothing elsewhere, and starts nothing."""
    secret, folder = tmp_path / "secret.tex", tmp_path / "reports"
    folder.mkdir()
    if "input" in command:
        secret.write_text("a secret")
    (folder / "report.tex").write_text(PAGE % (command % os.path.relpath(secret, folder)))
    with pytest.raises(UserError, match="pdflatex cannot compile"):
        compile_pdf(folder / "report.tex")
    assert "input" in command or not secret.exists()
    (folder / "report.tex").write_text(PAGE % r"\immediate\write18{touch made.txt}")
    compile_pdf(folder / "report.tex")
    assert not (folder / "made.txt").exists()
