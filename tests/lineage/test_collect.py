"""A result that a branch, a tag or a file of DVC names stays in the store."""

import subprocess
from pathlib import Path

import pytest
from support.small_jobs import CURVE, digest_of, shelf, train, training
from support.workspace import git

from rtm.core.errors import UserError
from rtm.core.files import write_text
from rtm.lineage import collect

pytestmark = pytest.mark.usefixtures("repository")


def commit(message: str) -> None:
    git("add", "-A", "lineage")
    git("commit", "-q", "-m", message)


def test_what_a_branch_or_dvc_needs_stays() -> None:
    for lr in (1, 2, 3):
        train(training(lr=lr), f"weights {lr}")
        if lr == 1:
            commit("first")
            subprocess.run(["git", "tag", "kept"], check=True)
    write_text(Path("dvc.lock"), f"md5: {digest_of('weights 2')}\nmd5: {digest_of(CURVE)}\n")
    subprocess.run(["git", "checkout", "-q", "--", "lineage"], check=True)
    (unneeded,) = collect.unneeded(shelf(), shelf().entries())
    assert unneeded.receipt["parts"]["params"] == {"lr": 3}
    freed = collect.remove(shelf(), [unneeded])
    assert freed == len("weights 3")  # other results have the same curve
    left = {entry.receipt["parts"]["params"]["lr"] for entry in shelf().entries() if shelf().holds_all(entry)}
    assert left == {1, 2}


def test_without_git_nothing_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    train(training())
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    with pytest.raises(UserError, match="nothing is removed"):
        collect.unneeded(shelf(), shelf().entries())
