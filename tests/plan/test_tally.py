"""Tallies and rehearsals: sums, differences, conversion to JSON and back, and the rounds of a run."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from support import smoke_workspace
from support.checkpoints import GAN, IMLE
from support.plans import rehearsal

from rtm.methods.imle.method import ImleMethod
from rtm.plan.tally import Rehearsal, Tally, chunk_count, round_count

SMALL = Tally(Counter({("", 0.0, 8): 3}), Counter(a=1), Counter(b=2), copied=5, exchanged=7, peak=40)
LARGE = Tally(Counter({("", 0.0, 8): 4, ("float32", 6.0, 2): 1}), Counter(a=1, c=1), Counter(b=3), 6, 9, 30)


def test_a_difference_and_the_rest_are_the_whole() -> None:
    more = LARGE - SMALL
    assert (more.launches, more.flops, more.bytes) == (2, 6.0, 10)
    assert (more.waits, more.doubles, more.copied, more.exchanged, more.peak) == (Counter(c=1), Counter(b=1), 1, 2, 30)
    assert SMALL + more == more + SMALL == replace(LARGE, peak=40)  # the higher of the two


def test_a_rehearsal_comes_back_from_json_as_it_was() -> None:
    written = replace(rehearsal(), parts={"step": LARGE, "begin": SMALL}, pool=11)
    assert Rehearsal.from_json(json.loads(json.dumps(written.to_json()))) == written


IMLE_CASES = [{"refresh": 1}, {"refresh": 2}, {"refresh": 2, "stagger": True}, {"refresh": 3, "pool": 9.0}]


@pytest.mark.parametrize("imle", IMLE_CASES, ids=str)
def test_rounds_and_chunks_are_those_of_a_real_run(tmp_path: Path, imle: dict[str, object]) -> None:
    chosen = smoke_workspace.experiment(IMLE, {"chunk": 20, **imle}, epochs=5, batch=20)  # the data has 48 images
    method = ImleMethod(smoke_workspace.setting(tmp_path, chosen))
    for step in range(chosen.steps()):
        method.step(step)
    assert method.rounds == round_count(chosen)
    assert method.m == 20 * chunk_count(chosen, 1)
    assert chunk_count(chosen, 2) == -(-chunk_count(chosen, 1) // 2)


def test_adversarial_training_has_no_rounds() -> None:
    assert chunk_count(smoke_workspace.experiment(GAN), 1) == 0
