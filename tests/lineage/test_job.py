"""A job: its name, its command, what it reads, and which of its files later jobs do not depend on."""

from pathlib import Path

import pytest
from support import PARAMS

from rtm.config import load
from rtm.core.files import write_json
from rtm.lineage.receipts import Ledger
from rtm.pipeline.graph import jobs


def test_the_test_split_is_no_part_of_what_trainings_depend_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load("paper", PARAMS)
    monkeypatch.chdir(tmp_path)
    graph = jobs(config)
    job, training = graph["fetch/cifar10"], graph["train/cifar10_imle_rtm/seed0"]
    assert [path.name for path in job.outputs] == ["images.npy", "labels.npy", "test_images.npy", "test_labels.npy"]

    def fingerprint(changed: str = "") -> str:
        outputs = {str(path): {"md5": "new" if path.name == changed else "old", "size": 1} for path in job.outputs}
        parts: dict[str, object] = {"params": {}, "code": "", "inputs": {}}
        write_json(job.receipt, {"fingerprint": "", "parts": parts, "outputs": outputs, "made": {}})
        return Ledger().fingerprint(training)

    assert fingerprint("test_images.npy") == fingerprint("test_labels.npy") == fingerprint()
    assert fingerprint("images.npy") != fingerprint()
