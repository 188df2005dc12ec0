"""One document with every table and figure of a scale, for pdflatex."""

import os
import shutil
import subprocess
from pathlib import Path

from rtm.config import Config
from rtm.core.errors import UserError, printable
from rtm.core.files import write_text
from rtm.core.layout import Layout
from rtm.reports import latex
from rtm.reports.cells import build
from rtm.reports.result import results

NAME = "report"
TIMEOUT = 300  # seconds
CONFINED = {"openin_any": "p", "openout_any": "p"}  # TeX must not read or write outside the document's folder


def write_report(config: Config, layout: Layout) -> Path:
    """Write reports/report.tex with all existing tables and figures."""
    path = layout.table(NAME)
    tables = [name for name in config.tables if layout.table(name).exists()]
    drawn = {name: figure for name, figure in config.figures.items() if layout.figure(name).exists()}
    if not tables and not drawn:
        raise UserError(f"There is no table or figure for {path}; make a table or a figure first.")
    figures = [
        {"name": name, "caption": figure.caption, "file": os.path.relpath(layout.figure(name), path.parent)}
        for name, figure in drawn.items()
    ]
    found = [each for name in tables for each in results(config, layout, build(config, layout, name))]
    given = {"tables": tables, "figures": figures, "references": _references(config, tables), "results": found}
    write_text(path, latex.environment().get_template("report.tex.j2").render(scale=config.scale_name, **given))
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


def _references(config: Config, tables: list[str]) -> list[tuple[str, str]]:
    """The references of the tables in the order of their first citation."""
    parts = [part for name in tables for part in config.tables[name].cells]
    published, foreign = config.params.published, config.params.foreign
    found = [published.get(str(part.published)) or foreign.get(str(part.foreign)) for part in parts]
    entries = [entry for entry in found if entry]
    return list({entry.cite: entry.reference for entry in entries if entry.cite and entry.reference}.items())
