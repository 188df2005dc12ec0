"""A sentence names the source of a cell's number. The tests of tracing follow the whole chain."""

import csv
from pathlib import Path

from support.reports import PAPER, cell_of

from rtm.config import Config
from rtm.reports.chain import Chains
from rtm.reports.sheets import build
from rtm.stages.table import Table


def test_a_story_is_that_of_its_cell(tmp_path: Path) -> None:
    config = PAPER.at(tmp_path)
    chains = Chains(config)
    sheet = build(config, "tab_cifar10")
    stories = {(cell.row, cell.column): chains.origin(sheet, cell) for cell in sheet.cells}
    assert stories["cifar10_stylegan2", "fid"].startswith("Published, not measured here: Karras et al. 2020")
    assert stories["cifar10_stylegan2", "recall"].startswith("Not reported by its source: Karras et al. 2020")
    command = f"`snakemake --profile slurm -- {Table().path(config, 'tex', table='tab_cifar10')}`"
    assert stories["cifar10_imle_rtm", "fid"] == f"Not measured yet; {command} measures it."


def test_a_mean_of_published_numbers_says_so(reproduced: Config) -> None:
    sheet = build(reproduced, "tab_fid")
    cell = cell_of(reproduced, "tab_fid", "average", "fastgan")
    assert Chains(reproduced).origin(sheet, cell) == "The mean of the published rows above, computed here."
    assert [other.row for other in sheet.averaged(cell)] == [line.id for line in sheet.lines[:-1]]
    with open(Table().path(reproduced, "csv", table="tab_fid"), encoding="utf-8") as file:
        sources = {(row["row"], row["column"]): row["source"] for row in csv.DictReader(file)}
    assert sources["average", "fastgan"].startswith("mean of RS-IMLE project page")
    assert sources["average", "imle_rtm"].startswith("mean of obama_imle_rtm; grumpy_cat_imle_rtm")
