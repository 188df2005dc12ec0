"""Tables show what was measured, mark it as the paper does, and never pass a published number off as ours."""

import csv
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from support import FILES, ROOT, fake_results

from rtm.config import Config, load
from rtm.config.reports import Table
from rtm.core.errors import UserError
from rtm.core.files import read_json, write_json
from rtm.core.layout import Layout
from rtm.page.html import reported
from rtm.reports import latex
from rtm.reports.cells import Cell, Line, build
from rtm.reports.chain import Chains
from rtm.reports.figures import render_figure
from rtm.reports.notes import notes
from rtm.reports.pdf import compile_pdf, write_report
from rtm.reports.summary import write_summary
from rtm.reports.tables import SUFFIXES, render_table
from rtm.reports.terminal import print_table

PAPER, DEMO, SMOKE = (load(scale, ROOT / "params") for scale in ("paper", "demo", "smoke"))
# The paper sets 0.99 bold beside 1.00: (table, row, column) of such mistakes.
SLIPS = {("tab_prec_recall", "obama_precision", column) for column in ("adaimle", "imle_mlp")}
# The paper gives its reproduction of RS-IMLE with one decimal (but Shells); here it has two, as its rivals have.
ONE_DECIMAL = {("tab_fid", "imle_mlp")}


def write_the_papers_results(layout: Layout) -> None:
    """The paper's own numbers, as if they had been measured here."""
    sections: dict[str, dict[str, dict[str, float]]] = {}
    for table in PAPER.tables.values():
        for part in table.cells:
            if part.experiment and part.paper:
                values = PAPER.params.published[part.paper].values
                section = sections.setdefault(part.experiment, {}).setdefault(str(part.section), {})
                if part.metric in values:
                    section[part.metric] = values[part.metric]
    for experiment, measured in sections.items():
        fake_results.write_results(PAPER, layout, experiment, measured)


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    root = tmp_path_factory.mktemp("reproduced")
    layout = Layout(root, root)
    write_the_papers_results(layout)
    for name in PAPER.tables:
        render_table(PAPER, layout, name)
    return layout


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    root = tmp_path_factory.mktemp("demo")
    layout = Layout(root, root)
    for number, name in enumerate(DEMO.experiments):
        sections = {"digits": {"fid": 100.0 - number, "precision": 0.8}, "latency": {"mapper_parameters": 33280.0}}
        fake_results.write_results(DEMO, layout, name, sections, spread=0.1)
    return layout


def printed() -> dict[str, list[list[str]]]:
    """The paper's tables as printed."""
    tables: dict[str, list[list[str]]] = {}
    for line in (FILES / "paper_tables.txt").read_text().splitlines():
        if line.startswith("["):
            rows = tables.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            rows.append(line.split())
    return tables


def rendered(layout: Layout, name: str, columns: int) -> list[list[str]]:
    """The cells of a .tex file in the notation of the printed ones."""
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
    """Every figure with its bold and underline, except for the mistakes listed above."""
    expected = printed()[name]
    sheet = build(PAPER, reproduced, name)
    actual = rendered(reproduced, name, len(sheet.table.columns))
    assert len(actual) == len(sheet.lines)
    ours = [(line, row) for line, row in zip(sheet.lines, actual, strict=True) if not added(line)]
    for (line, row), theirs in zip(ours, expected, strict=True):
        columns = [column for column in sheet.table.columns if column.metric not in ADDED]
        for column, paper, here in zip(columns, theirs, row, strict=False):  # what we add stands on the right
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


def test_notes_say_what_other_samples_would_change_and_what_real_images_score(demo: Layout, reproduced: Layout) -> None:
    found = notes(DEMO, demo, build(DEMO, demo, "tab_digits"))
    moved = next(note for note in found if note.startswith("With other samples of the same model (95 %): "))
    assert "precision ± 0.080," in moved and "FID ± 9.7 to 10.0." in moved
    assert "FID of real images against other real images: digits300 0.6 (5 against 6 images)." in found
    one_seed = "\n".join(notes(PAPER, reproduced, build(PAPER, reproduced, "tab_fid")))
    assert "(95 %): FID ± " in one_seed and "obama 0.5 (5 against 6 images), grumpy_cat 0.5" in one_seed
    assert "other samples" not in "".join(notes(PAPER, Layout(demo.root, demo.root), build(PAPER, demo, "tab_fid")))


def test_kid_is_shown_in_thousandths(tmp_path: Path) -> None:
    desk, layout = load("desk"), Layout(tmp_path, tmp_path)
    fake_results.write_results(desk, layout, "desk_mlp8", {}, spread=0.1)
    cell = cell_of(desk, layout, "tab_desk", "desk_mlp8", "kid")
    assert cell.value == pytest.approx(0.005)
    seeds = len(desk.experiment("desk_mlp8").seeds)
    assert (cell.text, cell.spread) == ("5.0", f"{5 * np.std(np.linspace(-0.1, 0.1, seeds), ddof=1):.1f}")


def test_several_seeds_give_mean_and_deviation(demo: Layout) -> None:
    cell = cell_of(DEMO, demo, "tab_digits", "digits_mlp8", "fid")
    assert (cell.text, cell.spread) == ("100.0", "10.0")
    assert latex.cell(cell) == r"100.0\,{\scriptsize$\pm$\,10.0}"


def notes_of(config: Config, layout: Layout, table: str) -> list[str]:
    return notes(config, layout, build(config, layout, table))


def test_the_conditions_of_a_measurement_come_from_its_files(tmp_path: Path) -> None:
    layout = Layout(tmp_path, tmp_path)
    for name, samples, batch in (("cifar10_imle_mlp", 64, 64), ("cifar10_imle_rtm", 50_000, 8)):
        fake_results.write_results(PAPER, layout, name, {})
        path = layout.metrics(name, "paper", 0)
        write_json(path, read_json(path) | {"samples": samples})
        path = layout.latency(name)
        write_json(path, read_json(path) | {"device": "Abacus", "batch": batch})
    shown = notes_of(PAPER, layout, "tab_cifar10")
    assert "Time per image: Abacus, batch 64; Abacus, batch 8." in shown
    assert any(note.startswith("Protocol paper, 64 or 50,000 samples: torch-fidelity") for note in shown)
    assert not any("Time per image" in note for note in notes_of(PAPER, layout, "tab_halt_sweep"))
    for table in (*PAPER.tables.values(), *DEMO.tables.values()):
        assert not re.search(r"samples|this machine|[Tt]ime per image", table.caption)


def test_a_note_names_stand_ins(tmp_path: Path) -> None:
    layout = Layout(tmp_path, tmp_path)
    assert notes_of(SMOKE, layout, "tab_fid")[-2].startswith("Scale: smoke: small stand-ins for data and models")
    assert "Scale: demo." in notes_of(DEMO, layout, "tab_digits")


def test_a_dagger_is_for_what_somebody_published(tmp_path: Path) -> None:
    """NVAE's number is from LSGM's publication, not from its own."""
    assert any(
        note == "†: quoted from a publication, not evaluated by the paper's authors."
        for note in notes_of(PAPER, Layout(tmp_path, tmp_path), "tab_celebahq")
    )
    assert all(
        "evaluation" in entry.source for entry in PAPER.params.published.values() if entry.cite and not entry.quoted
    )


def cell_of(config: Config, layout: Layout, table: str, row: str, column: str) -> Cell:
    return next(c for c in build(config, layout, table).cells if (c.row, c.column) == (row, column))


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


def test_a_story_is_that_of_its_cell(tmp_path: Path) -> None:
    layout = Layout(tmp_path, tmp_path)
    chains, sheet = Chains(PAPER, layout), build(PAPER, layout, "tab_cifar10")
    cells = {(cell.row, cell.column): chains.origin(sheet, cell) for cell in sheet.cells}
    assert cells["cifar10_stylegan2", "fid"].startswith("Published, not measured here: Karras et al. 2020")
    assert cells["cifar10_stylegan2", "recall"].startswith("Not reported by its source: Karras et al. 2020")
    made = f"`snakemake --profile slurm -- {layout.table('tab_cifar10')}`"
    assert cells["cifar10_imle_rtm", "fid"] == f"Not measured yet; {made} measures it."


def test_a_mean_of_published_numbers_says_so(reproduced: Layout) -> None:
    sheet = build(PAPER, reproduced, "tab_fid")
    cell = cell_of(PAPER, reproduced, "tab_fid", "average", "fastgan")
    origin = Chains(PAPER, reproduced).origin(sheet, cell)
    assert origin == "The mean of the published rows above, computed here."
    assert [each.row for each in sheet.averaged(cell)] == [line.id for line in sheet.lines[:-1]]
    with open(reproduced.table("tab_fid", ".csv")) as file:
        sources = {(row["row"], row["column"]): row["source"] for row in csv.DictReader(file)}
    assert sources["average", "fastgan"].startswith("mean of RS-IMLE project page")
    assert sources["average", "imle_rtm"].startswith("mean of obama_imle_rtm; grumpy_cat_imle_rtm")


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


def pair(tmp_path: Path, first: float, second: float) -> list[str | None]:
    """Marks of two measured FIDs in the depth table, where the other two are far off."""
    layout = Layout(tmp_path, tmp_path)
    fids = dict(zip(PAPER.tables["tab_depth_ablation"].experiments(), (first, second, 900.0, 900.0), strict=True))
    for name, fid in fids.items():
        fake_results.write_results(PAPER, layout, name, {"studiogan": {"fid": fid}})
    cells = [cell for cell in build(PAPER, layout, "tab_depth_ablation").cells if cell.column == "fid"]
    return [cell.mark for cell in cells[:2]]


def test_lower_is_better_for_fid(tmp_path: Path) -> None:
    assert pair(tmp_path, 3.0, 4.0) == ["best", None]


def test_values_that_read_the_same_share_the_mark(tmp_path: Path) -> None:
    assert pair(tmp_path, 3.001, 3.004) == ["best", "best"]


def test_a_lone_value_is_not_called_the_best(tmp_path: Path) -> None:
    layout = Layout(tmp_path, tmp_path)
    fake_results.write_results(PAPER, layout, "afhq_stylegan2_ada_rtm", {})
    assert all(cell.mark is None for cell in build(PAPER, layout, "tab_stylegan").cells)


def test_an_average_over_a_gap_is_a_gap(tmp_path: Path) -> None:
    layout = Layout(tmp_path, tmp_path)
    fake_results.write_results(PAPER, layout, "obama_imle_rtm", {"rs_imle": {"fid": 3.0}})
    assert cell_of(PAPER, layout, "tab_fid", "average", "imle_rtm").state == "missing"
    assert cell_of(PAPER, layout, "tab_fid", "average", "fastgan").text == "57.6"


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


TWO_PROTOCOLS = {
    "title": "x",
    "label": "x",
    "caption": "x",
    "columns": [{"title": "FID", "metric": "fid"}],
    "groups": [
        {
            "rows": [
                {"title": "a", "experiment": "a", "protocol": "paper"},
                {"title": "b", "experiment": "b", "protocol": "studiogan"},
            ]
        }
    ],
}


def test_protocols_are_not_mixed_unless_the_table_says_so() -> None:
    with pytest.raises(ValueError, match="different protocols"):
        Table.model_validate(TWO_PROTOCOLS, strict=False)
    assert Table.model_validate(TWO_PROTOCOLS | {"mixed_protocols": True}, strict=False).mixed_protocols


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("published: cifar10_ddpm}", "published: nobody}", "no published entry 'nobody'"),
        ("experiment: cifar10_imle_mlp,", "experiment: cifar11,", "no experiment 'cifar11'"),
        ("variant: H64, paper: paper_cifar10", "variant: H65, paper: paper_cifar10", "no variant 'H65'"),
        ("label: tab:cifar10\n", "label: tab:cifar10\n    experiment: x\n", "exactly one of experiment, foreign"),
        ("protocol: rs_imle\n    metric: fid", "protocol: studiogan\n    metric: fid", "no protocol 'studiogan'"),
        ("metric: precision, better: higher}\n", "better: higher}\n", "give a metric"),
    ],
)
def test_an_impossible_table_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    folder = shutil.copytree(ROOT / "params", tmp_path / "params")
    text = (folder / "tables.yaml").read_text()
    assert old in text
    (folder / "tables.yaml").write_text(text.replace(old, new, 1))
    with pytest.raises(UserError, match=message):
        load("paper", folder)


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


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("name", [*PAPER.tables, *DEMO.tables])
def test_it_is_shown_within_80_columns(reproduced: Layout, demo: Layout, name: str, terminal: bool) -> None:
    config, layout = (DEMO, demo) if name in DEMO.tables else (PAPER, reproduced)
    console = Console(width=80, record=True, file=io.StringIO(), force_terminal=terminal)
    sheet = build(config, layout, name)
    print_table(config, layout, sheet, console)
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= 80
    for cell in sheet.cells:
        assert any(cell.text in line for line in lines)


def test_a_pipe_shows_marks_without_bold(reproduced: Layout) -> None:
    console = Console(width=80, file=(shown := io.StringIO()))
    print_table(PAPER, reproduced, build(PAPER, reproduced, "tab_cifar10"), console)
    assert "[0.896]" in shown.getvalue() and "(0.853)" in shown.getvalue() and "[1.86°]" in shown.getvalue()
    assert "°: published by others" in shown.getvalue() and "Bold" not in shown.getvalue()


def test_reports_do_not_wait_for_torch() -> None:
    modules = "rtm.reports.tables, rtm.reports.terminal, rtm.reports.figures, rtm.reports.pdf"
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_a_report_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="make a table or a figure first"):
        write_report(PAPER, Layout(tmp_path, tmp_path))


def test_methods_of_columns_are_referred_to(reproduced: Layout) -> None:
    text = write_report(PAPER, reproduced).read_text()
    for key in ("liu2021fastgan", "aghabozorgi2023adaimle", "vashist2024rsimle", "ho2020ddpm"):
        assert text.count(rf"\bibitem{{{key}}}") == 1


def test_without_latex_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="install TeX Live"):
        compile_pdf(tmp_path / "report.tex")


@pytest.mark.slow(seconds=5)
def test_everything_compiles(reproduced: Layout, demo: Layout, tmp_path: Path) -> None:
    if shutil.which("pdflatex") is None:
        if os.environ.get("REQUIRE_LATEX") == "1":
            pytest.fail("REQUIRE_LATEX=1, but pdflatex is not installed")
        pytest.skip("pdflatex is not installed")
    for table in DEMO.tables:
        render_table(DEMO, demo, table)
    render_figure(DEMO, demo, "fig_digits_sweep")
    gaps = Layout(tmp_path, tmp_path)
    for table in PAPER.tables:
        render_table(PAPER, gaps, table, available=True)
    for config, layout in ((PAPER, reproduced), (DEMO, demo), (PAPER, gaps)):
        pdf = compile_pdf(write_report(config, layout))
        log = pdf.with_suffix(".log").read_text(errors="replace")
        assert pdf.stat().st_size > 10_000
        assert "undefined" not in log and "Overfull" not in log
