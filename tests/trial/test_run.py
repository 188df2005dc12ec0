"""The end of a trial: its numbers, and where its pictures are."""

import io
from pathlib import Path

import pytest
from rich.console import Console
from support import PARAMS, fake_results

from rtm.config import Config, load
from rtm.core.files import write_text
from rtm.lineage.begun import run_folder
from rtm.lineage.freshness import Freshness
from rtm.stages.figure import Figure
from rtm.stages.train import Train
from rtm.trial import recipe
from rtm.trial.recipe import Choice, Machine
from rtm.trial.run import conclude


@pytest.fixture
def cats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    """A trial that has begun."""
    recipe.write(tmp_path / "try/cats/params.yaml", Choice("cats", 100, 32, Machine(2, 0), 48), "0" * 64, 0.5)
    (tmp_path / "params").symlink_to(PARAMS)
    monkeypatch.chdir(tmp_path)
    return load("try/cats")


def printed(config: Config, measured: bool) -> str:
    console = Console(
        width=200,
        record=True,
        markup=False,
        highlight=False,
        file=io.StringIO(),
    )
    conclude(config, measured, console)
    return console.export_text()


def test_without_numbers_the_last_grid_of_each_training_is_named(cats: Config) -> None:
    freshness = Freshness()
    for name, steps in (("cats_mlp", (80, 160)), ("cats_rtm", (80,))):
        job = Train().job(cats, experiment=name, seed=0)
        for step in steps:
            write_text(run_folder(job, freshness.parts(job)) / f"grid_{step:09d}.png", "")
    text = printed(cats, False)
    grids = [Path(line).stem for line in text.splitlines() if line.endswith(".png")]
    assert grids == ["grid_000000160", "grid_000000080"]
    assert "rtm generate try/cats/cats_mlp\n" in text
    assert "  try/cats/reports/index.html\n" in text


def test_with_numbers_the_distance_has_its_error(cats: Config) -> None:
    for name, kid in (("cats_mlp", 0.0123), ("cats_rtm", 0.01)):
        protocol = cats.experiments[name].recipe.evaluation.protocols[0]
        fake_results.write_results(cats, name, {protocol: {"kid": kid, "kid_se": 0.0004}})
    text = printed(cats, True)
    assert "KID ×10³ of cats_mlp: 12.3 ± 0.4 (standard error)" in text
    assert "KID ×10³ of cats_rtm: 10.0 ± 0.4 (standard error)" in text
    assert all(str(Figure().path(cats, "png", figure=name)) in text for name in cats.figures)
