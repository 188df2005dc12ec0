"""The document with all tables and figures compiles, and pdflatex reads and writes only in its folder."""

import os
import shutil
from pathlib import Path

import pytest
from support.reports import DEMO, PAPER

from rtm.config import Config
from rtm.core.errors import UserError
from rtm.reports.figures import render_figure
from rtm.reports.latex import escape
from rtm.reports.pdf import compile_pdf, write_report
from rtm.reports.tables import render_table


def test_a_report_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="make a table or a figure first"):
        write_report(PAPER.at(tmp_path))


def test_methods_of_columns_are_referred_to(reproduced: Config) -> None:
    text = write_report(reproduced).read_text("utf-8")
    for key in ("liu2021fastgan", "aghabozorgi2023adaimle", "vashist2024rsimle", "ho2020ddpm"):
        assert text.count(rf"\bibitem{{{key}}}") == 1


def test_without_latex_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="install TeX Live"):
        compile_pdf(tmp_path / "report.tex")


@pytest.mark.slow(seconds=5)
def test_everything_compiles(reproduced: Config, demo: Config, tmp_path: Path) -> None:
    if shutil.which("pdflatex") is None:
        if os.environ.get("REQUIRE_LATEX") == "1":
            pytest.fail("REQUIRE_LATEX=1, but pdflatex is not installed")
        pytest.skip("pdflatex is not installed")
    for table in DEMO.tables:
        render_table(demo, table)
    render_figure(demo, "fig_digits_sweep")
    gaps = PAPER.at(tmp_path)
    for table in PAPER.tables:
        render_table(gaps, table, available=True)
    for config in (reproduced, demo, gaps):
        pdf = compile_pdf(write_report(config))
        log = pdf.with_suffix(".log").read_text("utf-8", errors="replace")
        assert pdf.stat().st_size > 10_000
        assert "undefined" not in log
        assert "Overfull" not in log


PAGE = "\\documentclass{article}\n\\begin{document}\nshown: %s\n\\end{document}\n"


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
@pytest.mark.parametrize(
    "text", [r"$\input{secret}$", r"$\immediate\openout3=made.txt$", "$^^5cwrite18{touch made.txt}$"]
)
def test_a_hostile_title_compiles_as_text(tmp_path: Path, text: str) -> None:
    document = tmp_path / "report.tex"
    document.write_text(PAGE % escape(text), "utf-8")
    assert compile_pdf(document).exists()
    assert not (tmp_path / "made.txt").exists()


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
@pytest.mark.parametrize("command", [r"\input{%s}", r"\immediate\openout3=%s \immediate\write3{x}\immediate\closeout3"])
def test_tex_itself_stays_in_its_folder(tmp_path: Path, command: str) -> None:
    """With any text in a document, pdflatex reads and writes only in its folder and starts no program."""
    secret = tmp_path / "secret.tex"
    folder = tmp_path / "reports"
    folder.mkdir()
    if "input" in command:
        secret.write_text("a secret", "utf-8")
    (folder / "report.tex").write_text(PAGE % (command % os.path.relpath(secret, folder)), "utf-8")
    with pytest.raises(UserError, match="pdflatex cannot compile"):
        compile_pdf(folder / "report.tex")
    assert "input" in command or not secret.exists()
    (folder / "report.tex").write_text(PAGE % r"\immediate\write18{touch made.txt}", "utf-8")
    compile_pdf(folder / "report.tex")
    assert not (folder / "made.txt").exists()
