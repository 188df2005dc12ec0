"""A named command works: it uses the cluster if GPUs are needed, otherwise this machine."""

from pathlib import Path

from support.reports import DEMO, PAPER

from rtm.core.layout import Layout
from rtm.reports.commands import command, drawing

TARGET = Path("reports/tab.tex")
CLUSTER, HERE = "snakemake --profile slurm -- ", "snakemake --cores all -- "


def test_one_experiment_with_gpus_takes_a_cluster() -> None:
    assert command(PAPER, TARGET, ["cifar10_imle_rtm"]) == f"{CLUSTER}{TARGET}"
    assert command(DEMO, TARGET, DEMO.experiments) == f"{HERE}{TARGET}"


def test_images_of_others_have_no_training() -> None:
    """The list of a table's missing experiments also contains them."""
    assert command(PAPER, TARGET, ["images_of_others"]) == f"{HERE}{TARGET}"
    assert command(PAPER, TARGET, ["images_of_others", "cifar10_imle_rtm"]) == f"{CLUSTER}{TARGET}"


def test_a_figure_of_a_table_needs_what_the_table_needs() -> None:
    layout, name = Layout(Path(), Path()), "fig_precision_recall_cifar10"
    alone = PAPER.figures[name].model_copy(update={"experiments": ()})
    assert drawing(PAPER, layout, name, alone) == f"{CLUSTER}{layout.figure(name)}"
    assert drawing(PAPER, layout, name, alone.model_copy(update={"table": None})) == f"{HERE}{layout.figure(name)}"
