"""A signature accepts a refactoring; every other difference is refused."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.small_jobs import edit, job, make, state

from rtm.cli.lineage import accept, show
from rtm.core.errors import UserError
from rtm.lineage import equivalence
from rtm.lineage.receipts import Ledger, State

pytestmark = pytest.mark.usefixtures("package")


def test_accept_keeps_a_refactoring_and_nothing_else(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = job("train", lr=1)
    make(made)
    receipt = made.receipt.read_text()
    edit(package, "third", "return 2", "return 1 + 1")
    assert Ledger().why(made) == ["code of rtm.third:all changed"]
    accept([made], "the same sum")
    assert re.search(r"^train/x: keeps its result\nrtm.third:all \(\w+\) is rtm.third:all", capsys.readouterr().out)
    assert state(made) is State.FRESH and made.receipt.read_text() == receipt
    (line,) = map(json.loads, equivalence.FILE.read_text().splitlines())
    assert line["reason"] == "the same sum" and line["a"]["own"] != line["b"]["own"]
    assert line.keys() == {"a", "b", "below", "reason", "author", "revision", "time"}
    accept([made], "again")
    assert "Nothing was stale" in capsys.readouterr().out
    with pytest.raises(UserError, match="lr has another value"):
        accept([job("train", lr=2)], "no")
    show(made)
    assert "the same sum" in capsys.readouterr().out
    edit(package, "third", "return 1 + 1", "return 3")
    assert Ledger().why(made) == ["code of rtm.third:all changed"]


def test_parameters_that_come_are_signed_for(package: Path) -> None:
    make(job("train", lr=1))
    before = Ledger().fingerprint(job("train", lr=1))
    edit(package, "third", "return 2", "return 1 + 1")
    now = job("train", lr=1, new_default=3)
    accept([now], "a default was written out")
    assert state(now) is State.FRESH
    (trace,) = json.loads(now.receipt.read_text())["accepted"]
    assert trace["reason"] == "a default was written out" and trace["fingerprint"] == before
    assert not equivalence.FILE.exists()
    assert trace["changes"] == ["new_default: absent -> 3", "code of rtm.third:all changed"]


def test_all_is_accepted_or_nothing(package: Path) -> None:
    train, evaluate = job("train", lr=1), job("evaluate", k=1)
    make(train)
    make(evaluate)
    edit(package, "third", "return 2", "return 1 + 1")
    train.outputs[0].write_text("TEXT")
    with pytest.raises(UserError, match="train/x cannot be accepted"):
        accept([evaluate, job("train", lr=1, new=2)], "no")
    assert state(evaluate) is State.STALE and not equivalence.FILE.exists()


@pytest.mark.parametrize(("old", "new"), [(None, 2), (2, None), (None, {"width": 8}), ("absent", 2)])
def test_a_change_from_or_to_null_is_no_refactoring(old: Any, new: Any) -> None:
    made = job("train", mapper={"tokens": old})
    make(made)
    changed = job("train", mapper={"tokens": new})
    assert Ledger().why(changed) == [f"mapper.tokens: {json.dumps(old)} -> {json.dumps(new)}"]
    with pytest.raises(UserError, match=r"mapper\.tokens has another value"):
        accept([changed], "no")
    assert state(made) is State.FRESH
