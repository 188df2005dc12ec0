"""Costs come back from JSON, and the rounds of a run are those of a real one."""

from pathlib import Path

import pytest
from support import smoke_workspace
from support.checkpoints import GAN, IMLE
from support.plans import cost

from rtm.methods.imle.method import ImleMethod
from rtm.plan.planner import FORMAT
from rtm.plan.tally import chunk_count, round_count


def test_a_cost_comes_back_from_json_as_it_was() -> None:
    assert FORMAT.validate_json(FORMAT.dump_json(cost()), strict=True) == cost()


@pytest.mark.parametrize(
    "imle",
    [{"refresh": 1}, {"refresh": 2}, {"refresh": 2, "stagger": True}, {"refresh": 3, "pool": 9.0}],
    ids=str,
)
def test_rounds_and_chunks_are_those_of_a_real_run(tmp_path: Path, imle: dict[str, object]) -> None:
    chosen = smoke_workspace.experiment(IMLE, {"chunk": 20, **imle}, epochs=5, batch=20)  # the data has 48 images
    method = ImleMethod(smoke_workspace.setting(tmp_path, chosen))
    for step in range(chosen.steps()):
        method.step(step)
    assert method.rounds == round_count(chosen)
    assert method.m == 20 * chunk_count(chosen, 1)
    assert chunk_count(chosen, 2) == -(-chunk_count(chosen, 1) // 2)


def test_adversarial_training_has_no_rounds() -> None:
    chosen = smoke_workspace.experiment(GAN)
    assert chunk_count(chosen, 1) == round_count(chosen) == 0
