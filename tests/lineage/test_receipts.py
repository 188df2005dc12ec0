"""The format of a receipt, and what is wrong in one that was edited."""

import json
from typing import Any

import pytest
from support.small_jobs import job, make, state, why

from rtm.core.errors import UserError
from rtm.lineage.freshness import Freshness, State
from rtm.lineage.receipts import hours_of

pytestmark = pytest.mark.usefixtures("package")


def edited(*place: str, to: Any) -> None:
    """Edit a value of the receipt of `job("train", lr=1)` by hand."""
    made = job("train", lr=1)
    make(made)
    receipt = json.loads(made.receipt.read_text("utf-8"))
    inner = receipt
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = to
    made.receipt.write_text(json.dumps(receipt), "utf-8")


@pytest.mark.parametrize("text", ["[]", "{}", "\xff", '{"fingerprint": "x", "parts": {}, "outputs": {}, "made": {}}'])
def test_a_broken_receipt_is_named(text: str) -> None:
    made = job("train")
    make(made)
    made.receipt.write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match=r"lineage/train/x\.json is damaged .* delete it"):
        state(made)


def test_a_receipt_with_other_values_is_refused() -> None:
    edited("parts", "params", "lr", to=2)
    assert state(job("train", lr=2)) is State.STALE
    assert "was edited" in why(job("train", lr=2))[0]
    assert "was edited" in Freshness().faults(job("train", lr=2))[0]


def test_a_receipt_with_another_code_is_refused() -> None:
    edited("parts", "code", to="0" * 16)
    assert "was edited" in why(job("train", lr=1))[0]


def test_a_receipt_of_other_files_is_refused() -> None:
    edited("outputs", "out/more.txt", to={"md5": "0" * 32, "size": 1})
    assert why(job("train", lr=1))[0] == "lineage/train/x.json names other outputs: out/more.txt"


@pytest.mark.parametrize(
    ("made", "hours"),
    [({}, 0), ({"seconds": 1800.0}, 0.5), ({"seconds": 1800.0, "gpu_hours": 4.0}, 4), ({"gpu_hours": None}, 0)],
)
def test_the_cost_is_in_hours_of_gpus_if_any_was_used(made: dict[str, float], hours: float) -> None:
    assert hours_of({"made": made}) == hours
