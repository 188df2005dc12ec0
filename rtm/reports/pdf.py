"""One document with every table and figure of a scale, for pdflatex."""

import os
import shutil
import subprocess
from pathlib import Path

from rtm.config import Config
from rtm.core.errors import UserError, printable
from rtm.core.files import write_text
from rtm.reports import latex
from rtm.reports.cells import Sheet
from rtm.reports.comparison import comparisons
from rtm.reports.sheets import build
from rtm.stages.figure import Figure
from rtm.stages.table import Table

NAME = "report"
TIMEOUT = 300  # seconds
CONFINED = {"openin_any": "p", "openout_any": "p"}  # TeX must not read or write outside the document's folder


def write_report(config: Config) -> Path:
    """Write reports/report.tex with all existing tables and figures."""
    path = Table().path(config, "tex", table=NAME)
    written = [name for name in config.tables if Table().path(config, "tex", table=name).exists()]
    sheets = [build(config, name) for name in written]
    figures = []
    for name, figure in config.figures.items():
        file = Figure().path(config, "pdf", figure=name)
        if file.exists():
            figures.append({"name": name, "caption": figure.caption, "file": os.path.relpath(file, path.parent)})
    if not sheets and not figures:
        raise UserError(f"There is no table or figure for {path}; make a table or a figure first.")
    text = latex.environment().get_template("report.tex.j2").render(
        scale=config.scale_name,
        tables=[sheet.name for sheet in sheets],
        figures=figures,
        references=_references(sheets),
        results=[sentence for sheet in sheets for sentence in comparisons(sheet)],
    )  # fmt: skip
    write_text(path, text)
    return path


def compile_pdf(path: Path) -> Path:
    """Run pdflatex twice, because of the references. If it fails, the message has the lines about the error."""
    if shutil.which("pdflatex") is None:
        raise UserError(
            "pdflatex is not installed; install TeX Live "
            "(Debian: texlive-latex-recommended and texlive-latex-extra), or compile reports/report.tex elsewhere."
        )
    call = ["pdflatex", "-no-shell-escape", "-interaction=nonstopmode", "-halt-on-error", "-file-line-error", path.name]
    for _ in range(2):
        try:
            done = subprocess.run(
                call,
                cwd=path.parent,
                env={**os.environ, **CONFINED},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=TIMEOUT,
            )
        except subprocess.TimeoutExpired:
            raise UserError(f"pdflatex did not end after {TIMEOUT} s; look at {path}.") from None
        if done.returncode:
            lines = [line for line in done.stdout.splitlines() if ".tex:" in line]
            raise UserError(f"pdflatex cannot compile {path}: {printable(' '.join(lines[:3]) or done.stdout[-300:])}")
    return path.with_suffix(".pdf")


def _references(sheets: list[Sheet]) -> dict[str, str]:
    """The references of the tables by key, in the order of their first citation."""
    references = {}
    for sheet in sheets:
        for cell in sheet.cells:
            entry = sheet.config.params.published[cell.part.published] if cell.part.published else None
            if entry and entry.cite and entry.reference:
                references[entry.cite] = entry.reference
    return references
