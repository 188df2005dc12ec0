"""All seven tables and all figures of the paper are made; every experiment is real and tiny.

One process makes all jobs, which saves 250 starts of Python; Snakemake then finds nothing to do.
"""

import json
import sys
from pathlib import Path

import pytest
from support import ROOT
from support.workspace import copied, environment, run, with_short_classifier

from rtm.config import load

pytestmark = pytest.mark.slow(seconds=64)
CONFIG = load("smoke", ROOT / "params")
MAKE_ALL = """
from rtm.config import load
from rtm.lineage.recording import run
from rtm.stages.base import upstream
from rtm.stages.graph import jobs
for job in upstream(job for job in jobs(load("smoke")).values() if job.stage.shows):
    run(job)
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = with_short_classifier(copied(tmp_path_factory.mktemp("smoke")))
    given = environment(folder) | {"OMP_NUM_THREADS": "1"}  # as Snakemake sets it for a rule
    run(folder, sys.executable, "-c", MAKE_ALL, given=given)
    return folder


def test_every_table_is_there_with_measured_numbers(made: Path) -> None:
    assert len(CONFIG.tables) == 8
    for name in CONFIG.tables:
        tex = (made / f"smoke/reports/{name}.tex").read_text("utf-8")
        assert r"\toprule" in tex
        assert r"\bottomrule" in tex
        chain = json.loads((made / f"smoke/reports/{name}.lineage.json").read_text("utf-8"))
        assert chain


def test_every_figure_is_there(made: Path) -> None:
    assert CONFIG.figures
    for name in CONFIG.figures:
        for suffix in (".pdf", ".png"):
            assert (made / f"smoke/reports/figures/{name}{suffix}").stat().st_size > 1000


def test_every_experiment_left_its_chain(made: Path) -> None:
    for experiment in CONFIG.experiments.values():
        metrics = json.loads((made / f"smoke/results/{experiment.name}/metrics.json").read_text("utf-8"))
        for protocol in experiment.recipe.evaluation.protocols:
            assert metrics[protocol]["fid"] > 0
            assert 0 <= metrics[protocol]["recall"] <= 1
        assert (made / f"smoke/lineage/train/{experiment.name}/seed0.json").exists()


def test_a_second_run_has_nothing_to_do(made: Path) -> None:
    assert "Nothing to be done" in run(made, "snakemake", "-n", "smoke")
