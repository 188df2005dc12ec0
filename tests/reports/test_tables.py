"""Tables show the measured numbers, mark them like the paper, and never show a published number as ours."""

import csv
import hashlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support import FILES, ROOT, fake_results
from support.reports import DEMO, PAPER, cell_of

from rtm.core.errors import UserError
from rtm.core.files import read_json, write_json
from rtm.core.layout import Layout
from rtm.page.html import reported
from rtm.reports import latex
from rtm.reports.cells import Line, build
from rtm.reports.chain import Chains
from rtm.reports.summary import write_summary
from rtm.reports.tables import SUFFIXES, render_table

# Mistakes of the paper, as (table, row, column): it prints 0.99 in bold although 1.00 is in the same row.
SLIPS = {("tab_prec_recall", "obama_precision", column) for column in ("adaimle", "imle_mlp")}
# The paper prints its reproduction of RS-IMLE with one decimal (except Shells); here it has two, like its rivals.
ONE_DECIMAL = {("tab_fid", "imle_mlp")}


def printed() -> dict[str, list[list[str]]]:
    """The paper's printed tables."""
    tables: dict[str, list[list[str]]] = {}
    for line in (FILES / "paper_tables.txt").read_text().splitlines():
        if line.startswith("["):
            rows = tables.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            rows.append(line.split())
    return tables


def rendered(layout: Layout, name: str, columns: int) -> list[list[str]]:
    """The cells of a .tex file in the notation of the printed tables."""
    rows = [line for line in layout.table(name).read_text().splitlines() if line.endswith(r" \\")]
    rows = [line for line in rows if " & " in line]
    return [[notation(cell) for cell in row.removesuffix(r" \\").split(" & ")[-columns:]] for row in rows]


def notation(cell: str) -> str:
    text = re.sub(r"^\\published\{(.*)\}$", r"\1", cell.strip()).replace("{,}", ",")
    return re.sub(r"\\underline\{(.*)\}", r"_\1_", re.sub(r"\\textbf\{(.*)\}", r"**\1**", text))


ADDED = ("steps", "z_change", "flips")  # columns that the paper's sweep over H does not have


def added(line: Line) -> bool:
    return any((cell.part.variant or "").startswith("halt") for cell in line.cells)


@pytest.mark.parametrize("name", printed())
def test_the_papers_numbers_give_the_papers_table(reproduced: Layout, name: str) -> None:
    """Every number has the same bold or underline, except for the mistakes listed above."""
    expected = printed()[name]
    sheet = build(PAPER, reproduced, name)
    actual = rendered(reproduced, name, len(sheet.table.columns))
    assert len(actual) == len(sheet.lines)
    ours = [(line, row) for line, row in zip(sheet.lines, actual, strict=True) if not added(line)]
    for (line, row), theirs in zip(ours, expected, strict=True):
        columns = [column for column in sheet.table.columns if column.metric not in ADDED]
        for column, paper, here in zip(columns, theirs, row, strict=False):  # our additional columns are on the right
            if (name, line.id, column.id) in SLIPS:
                assert paper.startswith("**")
                paper = paper.strip("*")
            if (name, column.id) in ONE_DECIMAL:
                decimals = len(paper.strip("*").partition(".")[2])
                here = here.replace(here.strip("*"), f"{float(here.strip('*')):.{decimals}f}")
            assert here == paper, f"{name}: {line.id}, {column.id}"


@pytest.mark.parametrize("name", printed())
def test_beside_ours_the_papers_numbers_are_as_it_prints_them(reproduced: Layout, name: str) -> None:
    sheet = build(PAPER, reproduced, name)
    for line, row in zip([line for line in sheet.lines if not added(line)], printed()[name], strict=True):
        for column, cell, paper in zip(sheet.table.columns, line.cells, row, strict=False):
            if cell.part.paper and cell.paper is not None:
                assert reported(cell, column, sheet) == paper.strip("*_"), f"{name}: {line.id}, {column.id}"


def test_the_demo_tables_say_what_features_they_use(demo: Layout) -> None:
    for name in DEMO.tables:
        render_table(DEMO, demo, name)
        assert "digit classifier" in demo.table(name).read_text()
        assert "Mean $\\pm$ standard deviation over 3 seeds" in demo.table(name).read_text()


def test_what_is_not_measured_is_refused_with_the_command(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"needs results of cifar10_imle_mlp and 1 more; make them with "):
        render_table(PAPER, Layout(tmp_path, tmp_path), "tab_cifar10")
    with pytest.raises(UserError, match=r"snakemake --profile slurm -- reports/tab_cifar10.tex.*--available`"):
        render_table(PAPER, Layout(Path(), tmp_path), "tab_cifar10")
    with pytest.raises(UserError, match=r"snakemake --cores all -- .*rtm table tab_digits --available --scale demo"):
        render_table(DEMO, Layout(tmp_path, tmp_path), "tab_digits")
    assert not list(tmp_path.iterdir())


def test_available_shows_gaps_and_what_fills_them(tmp_path: Path) -> None:
    layout = Layout(tmp_path, tmp_path)
    fake_results.write_results(PAPER, layout, "cifar10_imle_mlp", {"paper": {"fid": 5.0}})
    sheet = render_table(PAPER, layout, "tab_cifar10", available=True)
    states = {(cell.row, cell.column): cell.state for cell in sheet.cells}
    assert states["cifar10_imle_mlp", "fid"] == "measured"
    assert states["cifar10_imle_rtm", "fid"] == "missing"
    assert states["cifar10_stylegan2", "precision"] == "unreported"
    tex = layout.table("tab_cifar10").read_text()
    assert tex.count(r"--$^{\ast}$") == 5  # the row of RTM
    assert "not measured yet (cifar10\\_imle\\_rtm)" in tex and "snakemake -{}-profile slurm" in tex
    for suffix in SUFFIXES:
        assert layout.table("tab_cifar10", suffix).stat().st_size


def test_a_metric_that_could_not_be_computed_is_a_gap_with_a_reason(tmp_path: Path) -> None:
    layout = Layout(tmp_path, tmp_path)
    for name in ("cifar10_imle_mlp", "cifar10_imle_rtm"):
        fake_results.write_results(PAPER, layout, name, {})
        path = layout.metrics(name, "paper", 0)
        file = read_json(path)
        for metrics in file["metrics"].values():
            del metrics["is"], metrics["is_std"]
        write_json(path, file)
        write_summary(PAPER, layout, name)
    sheet = render_table(PAPER, layout, "tab_cifar10")
    assert {cell.column for cell in sheet.cells if cell.state == "missing"} == {"is"}
    assert "∗: IS could not be computed" in layout.table("tab_cifar10", ".md").read_text()
    cells = read_json(layout.table("tab_cifar10", ".lineage.json"))["cells"]
    assert not any("filled_by" in cell for cell in cells)
    chains, cell = Chains(PAPER, layout), cell_of(PAPER, layout, "tab_cifar10", "cifar10_imle_rtm", "is")
    assert chains.origin(sheet, cell).startswith("IS could not be computed on the measuring machine; `rtm doctor`")


def test_published_numbers_are_never_shown_as_ours(reproduced: Layout) -> None:
    for name, table in PAPER.tables.items():
        for cell in build(PAPER, reproduced, name).cells:
            assert (cell.state == "published") == latex.cell(cell).startswith(r"\published{")
        with open(reproduced.table(name, ".csv")) as file:
            rows = [row for row in csv.DictReader(file) if not row["row"].startswith("average")]
        ours = {row["source"] for row in rows if row["state"] == "measured"}
        assert ours == set(table.experiments())
        assert all(row["source"] not in PAPER.experiments for row in rows if row["state"] != "measured")


def test_what_the_paper_reports_is_kept_beside_and_never_shown(tmp_path: Path) -> None:
    layout = Layout(tmp_path, tmp_path)
    for name in PAPER.tables["tab_depth_ablation"].experiments():
        fake_results.write_results(PAPER, layout, name, {"studiogan": {"fid": 77.0}})
    render_table(PAPER, layout, "tab_depth_ablation")
    assert "3.55" not in layout.table("tab_depth_ablation").read_text()
    assert cell_of(PAPER, layout, "tab_depth_ablation", "cifar10_stylegan2_rtm", "fid").paper == 3.55


def test_every_number_has_a_macro(reproduced: Layout, demo: Layout) -> None:
    names: list[str] = []
    for table in PAPER.tables:
        macros = re.findall(
            r"^\\newcommand\{\\([A-Za-z]+)\}\{(.+)\}$", reproduced.table(table, ".macros.tex").read_text(), re.M
        )
        assert [text.replace("{,}", ",") for _, text in macros] == [
            c.text for c in build(PAPER, reproduced, table).cells
        ]
        names += [name for name, _ in macros]
    assert len(names) == len(set(names))
    assert "TabCifarOneZeroImleRtmFid" in names and "TabHaltSweepCifarOneZeroImleRtmHSixFourRecall" in names
    render_table(DEMO, demo, "tab_digits")
    assert r"\newcommand{\TabDigitsMlpEightFidStd}{10.0}" in demo.table("tab_digits", ".macros.tex").read_text()


def test_every_cell_has_a_chain(reproduced: Layout) -> None:
    for name in PAPER.tables:
        lineage = read_json(reproduced.table(name, ".lineage.json"))
        for path, file in lineage["files"].items():
            assert file["sha256"] == hashlib.sha256(Path(path).read_bytes()).hexdigest()
        for cell in lineage["cells"]:
            if cell["state"] == "measured":
                assert cell.get("mean_of") or cell["files"][0].endswith(f"{cell['experiment']}/metrics.json")
                assert set(cell.get("files", [])) <= set(lineage["files"])
            elif cell["state"] == "published":
                assert cell.get("mean_of") or cell["source"]
    path = str(reproduced.metrics("cifar10_imle_rtm", "paper", 0))
    files = read_json(reproduced.table("tab_cifar10", ".lineage.json"))["files"]
    assert files[path]["provenance"] == {"checkpoint": "cifar10_imle_rtm-0"}


def test_rendering_again_changes_no_byte(reproduced: Layout) -> None:
    before = {suffix: reproduced.table("tab_stylegan", suffix).read_bytes() for suffix in SUFFIXES}
    render_table(PAPER, reproduced, "tab_stylegan")
    assert before == {suffix: reproduced.table("tab_stylegan", suffix).read_bytes() for suffix in SUFFIXES}


def test_reports_do_not_wait_for_torch() -> None:
    modules = "rtm.reports.tables, rtm.reports.terminal, rtm.reports.figures, rtm.reports.pdf"
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
