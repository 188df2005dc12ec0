"""A named command works: it uses the cluster if GPUs are needed, otherwise this machine."""

import pytest
from support.reports import DEMO, PAPER

from rtm.config import Config
from rtm.reports.commands import making, missing
from rtm.stages.figure import Figure
from rtm.stages.train import Train


@pytest.mark.parametrize(
    ("config", "name", "profile"),
    [(PAPER, "cifar10_imle_rtm", "--profile slurm"), (DEMO, "digits_rtm", "--cores all")],
)
def test_an_experiment_with_gpus_takes_a_cluster(config: Config, name: str, profile: str) -> None:
    job = Train().job(config, experiment=name, seed=0)
    curve = job.outputs["curve"]
    assert making(job) == f"snakemake {profile} -- {job.first}"
    assert making(job, "curve", "-f") == f"snakemake {profile} -f -- {curve}"
    assert missing(job, "curve") == f"{curve} does not exist; make it first with `{making(job, 'curve')}`."


def test_a_figure_needs_what_its_table_needs() -> None:
    job = Figure().job(PAPER, figure="fig_precision_recall_cifar10")
    assert making(job) == f"snakemake --profile slurm -- {job.first}"
