"""A sentence names the source of a cell's number. The tests of tracing follow the whole chain."""

import csv
from pathlib import Path

from support.reports import PAPER, cell_of

from rtm.core.layout import Layout
from rtm.reports.cells import build
from rtm.reports.chain import Chains


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
