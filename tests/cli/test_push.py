"""`rtm generate --push`: the file and its card arrive, or one sentence says why they do not."""

from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from support import PARAMS, fake_results
from support.checkpoints import IMLE

from rtm.config import load
from rtm.core.files import digest, write_json
from rtm.stages.evaluate import Evaluate
from rtm.stages.train import Train

CONFIG = load("smoke", PARAMS)
JOB = Train().job(CONFIG, experiment=IMLE, seed=0)
PROTOCOL = CONFIG.experiments[IMLE].recipe.evaluation.protocols[0]
METRICS = Evaluate().path(
    CONFIG,
    "metrics",
    experiment=IMLE,
    protocol=PROTOCOL,
    seed=0,
)


def test_a_checkpoint_is_pushed_with_a_card_of_its_receipt(
    folder: Path, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = JOB.first
    file = folder / path
    made: dict[str, Any] = {
        "time": "2026-11-17T12:00:00",
        "revision": "abc123",
        "gpu_hours": 2.5,
        "environment": {"torch": "2.12.0"},
    }
    fake_results.sign(folder, JOB, **made)
    numbers = {
        "fid": 12.5,
        "kid": 0.003,
        "kid_se": 0.001,
        "recall": 0.25,
    }
    measured = {
        "experiment": IMLE,
        "protocol": PROTOCOL,
        "seed": 0,
        "samples": 64,
        "metrics": {"native": numbers},
    }
    measured |= {"intervals": {"native": {"fid": [11.5, 13.5]}}, "provenance": {"checkpoint_sha256": digest(file)}}
    write_json(folder / METRICS, measured)
    sent: dict[str, Any] = {}

    def upload_folder(*, repo_id: str, folder_path: Path, commit_message: str) -> None:
        sent.update({each.name: each.read_bytes() for each in Path(folder_path).iterdir()}, message=commit_message)

    monkeypatch.setattr(huggingface_hub, "create_repo", lambda repo_id, **options: sent.update(repo=repo_id, **options))
    monkeypatch.setattr(huggingface_hub, "upload_folder", upload_folder)
    assert call("generate", f"smoke/{IMLE}", "--push", "owner/name") == ["hf://owner/name/seed0.safetensors"]
    card = sent["README.md"].decode()
    assert sent["repo"] == "owner/name"
    assert sent["exist_ok"]
    assert not sent["private"]
    assert sent["seed0.safetensors"] == file.read_bytes()
    for line in (
        'library_name: "rtm"',
        "# shells_imle_rtm, seed 0",
        "A generator of 8 × 8 px images of Shells, with the Recursive Token Mapper, trained by RS-IMLE.",
        "| licence of the dataset | web images, research use |",
        "| code revision | abc123 |",
        "| trained | 2026-11-17T12:00:00, 2.5 GPU-hours |",
        f"Protocol `{PROTOCOL}`, 64 samples:",
        "| FID | 12.5 | 11.5 to 13.5 |",
        "| recall | 0.25 |  |",
        'generator = rtm.load("hf://owner/name/seed0.safetensors")',
    ):
        assert line in card.splitlines()
    assert "kid_se" not in card
    assert call("generate", "gan.safetensors", "--push", "owner/name", "--card", "card") == ["card"]
    alone = (folder / "card/README.md").read_text("utf-8")
    assert "not recorded: this file has no receipt" in alone
    assert "No metrics were recorded for this file." in alone
    weights = file.read_bytes()
    file.write_bytes(weights + b"x")
    (refused,) = call("generate", f"smoke/{IMLE}", "--push", "owner/name")
    file.write_bytes(weights)
    assert refused.startswith(f"rtm: {path} is not the file of its receipt; bring it back with")
    assert call("generate", "gan.safetensors", "--push", "name") == [
        "rtm: name is no repository of the Hub; write owner/name."
    ]


class NoNetworkError(Exception):
    """An error like one from a library below the Hub's: it is no OSError and no ValueError."""


@pytest.mark.parametrize("kind", [OSError, NoNetworkError])
def test_the_hubs_refusal_is_one_sentence(call: Any, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise kind("401 Client Error\nand much more")

    monkeypatch.setattr(huggingface_hub, "create_repo", refuse)
    assert call("generate", "gan.safetensors", "--push", "owner/name") == [
        "rtm: The Hub refused it or was not reached (401 Client Error); look at the network, log in with "
        "`hf auth login`, and run this again."
    ]


def test_numbers_of_other_weights_are_not_in_the_card(folder: Path, call: Any) -> None:
    (folder / JOB.receipt).unlink(missing_ok=True)
    measured = {
        "experiment": IMLE,
        "protocol": PROTOCOL,
        "seed": 0,
        "samples": 64,
        "metrics": {"native": {"fid": 12.5}},
    }
    measured |= {"intervals": {}, "provenance": {"checkpoint_sha256": "0" * 64}}
    write_json(folder / METRICS, measured)
    assert call("generate", f"smoke/{IMLE}", "--push", "owner/name", "--card", "others") == ["others"]
    card = (folder / "others/README.md").read_text("utf-8")
    assert "12.5" not in card
    assert "No metrics were recorded for this file." in card
    assert (folder / "others/seed0.safetensors").read_bytes() == (folder / JOB.first).read_bytes()
