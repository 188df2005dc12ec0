"""One command makes all seven tables and all figures of the paper; every experiment is real and tiny."""

import json
from pathlib import Path

import pytest
from support import ROOT
from support.workspace import copied, environment, run, with_short_classifier

from rtm.cli.forkserver import running
from rtm.config import load

pytestmark = pytest.mark.slow(seconds=64)
CONFIG = load("smoke", ROOT / "params")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = with_short_classifier(copied(tmp_path_factory.mktemp("smoke")))
    with running(environment(folder), folder) as warm:
        run(folder, "snakemake", "--cores", "2", "smoke", given=warm)
    return folder


def test_every_table_is_there_with_measured_numbers(made: Path) -> None:
    assert len(CONFIG.tables) == 8
    for name in CONFIG.tables:
        tex = (made / f"smoke/reports/{name}.tex").read_text()
        assert r"\toprule" in tex and r"\bottomrule" in tex
        chain = json.loads((made / f"smoke/reports/{name}.lineage.json").read_text())
        assert chain


def test_every_figure_is_there(made: Path) -> None:
    assert CONFIG.figures
    for name in CONFIG.figures:
        for suffix in (".pdf", ".png"):
            assert (made / f"smoke/reports/figures/{name}{suffix}").stat().st_size > 1000


def test_every_experiment_left_its_chain(made: Path) -> None:
    for experiment in CONFIG.experiments.values():
        metrics = json.loads((made / f"smoke/results/{experiment.name}/metrics.json").read_text())
        for protocol in experiment.recipe.evaluation.protocols:
            assert metrics[protocol]["fid"] > 0 and 0 <= metrics[protocol]["recall"] <= 1
        assert (made / f"smoke/lineage/train/{experiment.name}/seed0.json").exists()
    assert not list((made / "smoke/samples").glob("*/*"))  # samples are temporary


def test_a_second_run_has_nothing_to_do(made: Path) -> None:
    assert "Nothing to be done" in run(made, "snakemake", "-n", "smoke")
