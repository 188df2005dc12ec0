"""`rtm generate --push`: send a checkpoint and its model card to the Hugging Face Hub."""

import argparse
import shutil
import tempfile
from pathlib import Path

from rtm.checkpoints.addresses import HUB, NEEDS_HUB
from rtm.checkpoints.card import model_card
from rtm.cli.recorded import receipt_of
from rtm.core.errors import UserError, printable, reason_of
from rtm.core.files import digest, write_text
from rtm.core.readers import checkpoint_metadata, read_json, reading
from rtm.lineage.receipts import JSON
from rtm.stages.base import Job
from rtm.stages.evaluate import Evaluate


def push(arguments: argparse.Namespace, job: Job | None) -> None:
    """Publish a training's weights, or a file, on the Hugging Face Hub, with a card of its receipt and metrics."""
    repo = arguments.push or "owner/name"
    if not HUB.fullmatch(f"hf://{repo}/file"):
        raise UserError(f"{printable(repo)} is no repository of the Hub; write owner/name.")
    path = job.first if job else Path(arguments.checkpoint)
    if not path.is_file():
        raise UserError(f"{path} is missing; train it, or bring it with `dvc pull {path}`.")
    address = f"hf://{repo}/{path.name}"
    made = _made(job) if job else None
    with reading(path, "train it again, or get it again"):
        card = model_card(checkpoint_metadata(path), address, digest(path), made, _metrics(job) if job else [])
    if arguments.card:
        _write(arguments.card, path, card)
        print(arguments.card)
        return
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder), path, card)
        _upload(repo, Path(folder), path.name, arguments.private)
    print(address)


def _made(job: Job) -> JSON | None:
    """The facts about a training, from its receipt."""
    if not job.receipt.exists():
        return None
    made: JSON = receipt_of(job, job.first)["made"]
    return made


def _metrics(job: Job) -> list[JSON]:
    """The metrics of exactly this file."""
    sha256 = digest(job.first)
    metrics = []
    for protocol in job.experiment.recipe.evaluation.protocols:
        file = Evaluate().path(job.config, "metrics", protocol=protocol, **job.names)
        content = read_json(file, JSON) if file.exists() else {}
        if content.get("provenance", {}).get("checkpoint_sha256") == sha256:
            metrics.append(content)
    return metrics


def _write(folder: Path, checkpoint: Path, card: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(checkpoint, folder / checkpoint.name)
    write_text(folder / "README.md", card)


def _upload(repo: str, folder: Path, name: str, private: bool) -> None:
    try:
        from huggingface_hub import create_repo, upload_folder
    except ModuleNotFoundError:
        raise UserError(f"{NEEDS_HUB}, and run this again.") from None
    try:
        create_repo(repo, private=private, exist_ok=True)
        upload_folder(repo_id=repo, folder_path=folder, commit_message=f"{name} and its model card")
    except Exception as error:  # huggingface_hub raises its own errors and those of its HTTP library
        raise UserError(
            f"The Hub refused it or was not reached ({reason_of(error)}); look at the network, log in with "
            "`hf auth login`, and run this again."
        ) from None
