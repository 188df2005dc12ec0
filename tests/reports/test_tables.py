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

from rtm.config import Config
from rtm.core.errors import UserError
from rtm.core.files import write_json
from rtm.core.readers import read_json
from rtm.page.html import reported
from rtm.reports import latex
from rtm.reports.cells import Line, Sheet
from rtm.reports.chain import Chains
from rtm.reports.sheets import build
from rtm.reports.tables import WRITERS, render_table
from rtm.stages.evaluate import Evaluate
from rtm.stages.table import Table

# Mistakes of the paper, as (table, row, column): it prints 0.99 in bold although 1.00 is in the same row.
SLIPS = {("tab_prec_recall", "obama_precision", column) for column in ("adaimle", "imle_mlp")}
# The paper prints its reproduction of RS-IMLE with one decimal (except Shells); here it has two, like its rivals.
ONE_DECIMAL = {("tab_fid", "imle_mlp")}


def printed() -> dict[str, list[list[str]]]:
    """The paper's printed tables."""
    tables: dict[str, list[list[str]]] = {}
    for line in (FILES / "paper_tables.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            rows = tables.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            rows.append(line.split())
    return tables


def rendered(config: Config, name: str, columns: int) -> list[list[str]]:
    """The cells of a .tex file in the notation of the printed tables."""
    rows = [
        line
        for line in Table().path(config, "tex", table=name).read_text("utf-8").splitlines()
        if line.endswith(r" \\")
    ]
    rows = [line for line in rows if " & " in line]
    return [[notation(cell) for cell in row.removesuffix(r" \\").split(" & ")[-columns:]] for row in rows]


def notation(cell: str) -> str:
    text = re.sub(r"^\\published\{(.*)\}$", r"\1", cell.strip()).replace("{,}", ",")
    return re.sub(r"\\underline\{(.*)\}", r"_\1_", re.sub(r"\\textbf\{(.*)\}", r"**\1**", text))


ADDED = ("steps", "z_change", "flips")  # columns that the paper's sweep over H does not have


def printed_lines(sheet: Sheet) -> list[Line]:
    """The rows that the paper has too."""
    return [line for line in sheet.lines if not (line.cells[0].part.variant or "").startswith("halt")]


@pytest.mark.parametrize("name", printed())
def test_the_papers_numbers_give_the_papers_table(reproduced: Config, name: str) -> None:
    """Every number has the same bold or underline, except for the mistakes listed above. Beside ours, the page shows
    the paper's numbers as it prints them."""
    sheet = build(reproduced, name)
    actual = rendered(reproduced, name, len(sheet.table.columns))
    rows = {line.id: row for line, row in zip(sheet.lines, actual, strict=True)}
    for line, expected in zip(printed_lines(sheet), printed()[name], strict=True):
        cells = zip(sheet.table.columns, line.cells, rows[line.id], strict=True)
        common = [(column, cell, here) for column, cell, here in cells if column.metric not in ADDED]
        for (column, cell, here), paper in zip(common, expected, strict=False):
            if cell.part.paper and cell.paper is not None:
                assert reported(cell, sheet) == paper.strip("*_"), f"{name}: {line.id}, {column.id}"
            if (name, line.id, column.id) in SLIPS:
                assert paper.startswith("**")
                paper = paper.strip("*")
            if (name, column.id) in ONE_DECIMAL:
                decimals = len(paper.strip("*").partition(".")[2])
                here = here.replace(here.strip("*"), f"{float(here.strip('*')):.{decimals}f}")
            assert here == paper, f"{name}: {line.id}, {column.id}"


def test_the_demo_tables_say_what_features_they_use(demo: Config) -> None:
    for name in demo.tables:
        render_table(demo, name)
        text = Table().path(demo, "tex", table=name).read_text("utf-8")
        assert "digit classifier" in text
        assert "Mean $\\pm$ standard deviation over 3 seeds" in text


def test_what_is_not_measured_is_refused_with_the_command(tmp_path: Path) -> None:
    message = (
        "needs results of cifar10_imle_mlp and 1 more; make them with `snakemake --profile slurm -- .*--available`"
    )
    with pytest.raises(UserError, match=message):
        render_table(PAPER.at(tmp_path), "tab_cifar10")
    with pytest.raises(UserError, match=r"snakemake --cores all -- .*rtm table tab_digits --available --scale demo"):
        render_table(DEMO.at(tmp_path), "tab_digits")
    assert not list(tmp_path.iterdir())


def test_available_shows_gaps_and_what_fills_them(tmp_path: Path) -> None:
    config = PAPER.at(tmp_path)
    fake_results.write_results(config, "cifar10_imle_mlp", {"paper": {"fid": 5.0}})
    sheet = render_table(config, "tab_cifar10", available=True)
    states = {(cell.row, cell.column): cell.state for cell in sheet.cells}
    assert states["cifar10_imle_mlp", "fid"] == "measured"
    assert states["cifar10_imle_rtm", "fid"] == "missing"
    assert states["cifar10_stylegan2", "precision"] == "unreported"
    tex = Table().path(config, "tex", table="tab_cifar10").read_text("utf-8")
    assert tex.count(r"--$^{\ast}$") == 5  # the row of RTM
    assert "not measured yet (cifar10\\_imle\\_rtm)" in tex
    assert "snakemake -{}-profile slurm" in tex
    assert all(Table().path(config, suffix, table="tab_cifar10").stat().st_size for suffix in WRITERS)


def test_a_metric_that_could_not_be_computed_is_a_gap_with_a_reason(tmp_path: Path) -> None:
    config = PAPER.at(tmp_path)
    for name in ("cifar10_imle_mlp", "cifar10_imle_rtm"):
        fake_results.write_results(config, name, {})
        path = Evaluate().path(
            config,
            "metrics",
            experiment=name,
            protocol="paper",
            seed=0,
        )
        file = read_json(path)
        for metrics in file["metrics"].values():
            del metrics["is"], metrics["is_std"]
        write_json(path, file)
    sheet = render_table(config, "tab_cifar10")
    assert {cell.column for cell in sheet.cells if cell.state == "missing"} == {"is"}
    assert "∗: IS could not be computed" in Table().path(config, "md", table="tab_cifar10").read_text("utf-8")
    origin = Chains(config).origin(sheet, cell_of(config, "tab_cifar10", "cifar10_imle_rtm", "is"))
    assert origin.startswith("IS could not be computed on the measuring machine; `rtm doctor`")


def test_published_numbers_are_never_shown_as_ours(reproduced: Config) -> None:
    for name, table in PAPER.tables.items():
        for cell in build(reproduced, name).cells:
            assert (cell.state == "published") == latex.cell(cell).startswith(r"\published{")
        with open(Table().path(reproduced, "csv", table=name), encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if not row["row"].startswith("average")]
        ours = {row["source"] for row in rows if row["state"] == "measured"}
        assert ours == set(table.experiments())
        assert all(row["source"] not in PAPER.experiments for row in rows if row["state"] != "measured")


def test_what_the_paper_reports_is_kept_beside_and_never_shown(tmp_path: Path) -> None:
    config = PAPER.at(tmp_path)
    for name in PAPER.tables["tab_depth_ablation"].experiments():
        fake_results.write_results(config, name, {"studiogan": {"fid": 77.0}})
    render_table(config, "tab_depth_ablation")
    assert "3.55" not in Table().path(config, "tex", table="tab_depth_ablation").read_text("utf-8")
    assert cell_of(config, "tab_depth_ablation", "cifar10_stylegan2_rtm", "fid").paper == 3.55


def test_every_number_has_a_macro(reproduced: Config, demo: Config) -> None:
    names: list[str] = []
    for table in PAPER.tables:
        text = Table().path(reproduced, "macros", table=table).read_text("utf-8")
        macros = re.findall(r"^\\newcommand\{\\([A-Za-z]+)\}\{(.+)\}$", text, re.M)
        shown = [number.replace("{,}", ",") for _, number in macros]
        assert shown == [cell.text for cell in build(reproduced, table).cells]
        names += [name for name, _ in macros]
    assert len(names) == len(set(names))
    assert "TabCifarOneZeroImleRtmFid" in names
    assert "TabHaltSweepCifarOneZeroImleRtmHSixFourRecall" in names
    render_table(demo, "tab_digits")
    assert r"\newcommand{\TabDigitsMlpEightFidStd}{10.0}" in Table().path(demo, "macros", table="tab_digits").read_text(
        "utf-8"
    )


def test_every_cell_has_a_chain(reproduced: Config) -> None:
    for name in PAPER.tables:
        lineage = read_json(Table().path(reproduced, "lineage", table=name))
        for path, file in lineage["files"].items():
            assert file["sha256"] == hashlib.sha256(Path(path).read_bytes()).hexdigest()
        for cell in lineage["cells"]:
            assert cell["source"]
            assert cell["state"] in ("measured", "published", "unreported")
            if cell["state"] == "measured" and "mean_of" not in cell:
                assert cell["files"]
                assert set(cell["files"]) <= set(lineage["files"])
    path = str(
        Evaluate().path(
            reproduced,
            "metrics",
            experiment="cifar10_imle_rtm",
            protocol="paper",
            seed=0,
        )
    )
    files = read_json(Table().path(reproduced, "lineage", table="tab_cifar10"))["files"]
    assert files[path]["provenance"] == {"checkpoint": "cifar10_imle_rtm-0"}


def test_rendering_again_changes_no_byte(reproduced: Config) -> None:
    files = [Table().path(reproduced, suffix, table="tab_stylegan") for suffix in WRITERS]
    before = [path.read_bytes() for path in files]
    render_table(reproduced, "tab_stylegan")
    assert before == [path.read_bytes() for path in files]


def test_reports_do_not_wait_for_torch() -> None:
    modules = "rtm.reports.tables, rtm.reports.terminal, rtm.reports.figures, rtm.reports.pdf, rtm.page.html"
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
