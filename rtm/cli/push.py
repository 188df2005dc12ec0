"""`rtm push-checkpoint`: send a checkpoint and its model card to the Hugging Face Hub."""

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

from rtm.checkpoints.addresses import HUB, NEEDS_HUB
from rtm.checkpoints.card import model_card
from rtm.cli.generate import of_experiment
from rtm.cli.place import given_path, given_target
from rtm.core.errors import UserError, printable, reason_of
from rtm.core.files import checkpoint_metadata, digest, read_json, reading, write_text
from rtm.lineage.format import read_receipt


def push_checkpoint(arguments: argparse.Namespace) -> None:
    """Publish a checkpoint on the Hugging Face Hub, with a model card made from its receipt and metrics."""
    repo = arguments.repository
    if not HUB.fullmatch(f"hf://{repo}/file"):
        raise UserError(f"{printable(repo)} is no repository of the Hub; write owner/name.")
    path, made, measured = _found(arguments)
    address = f"hf://{repo}/{path.name}"
    with reading(path, "train it again, or get it again"):
        card = model_card(checkpoint_metadata(path), address, digest(path), made, measured)
    if arguments.out:
        _written(Path(arguments.out), path, card)
        print(arguments.out)
        return
    with tempfile.TemporaryDirectory() as folder:
        _written(Path(folder), path, card)
        _upload(repo, Path(folder), path.name, arguments.private)
    print(address)


def _found(arguments: argparse.Namespace) -> tuple[Path, dict[str, Any] | None, list[dict[str, Any]]]:
    """The file, the facts about its training, and the metrics of exactly this file."""
    if Path(arguments.checkpoint).is_file():
        return Path(arguments.checkpoint), None, []
    context, experiment, seed = of_experiment(arguments.checkpoint, arguments.scale)
    layout, name = context.layout, experiment.name
    path, receipt = layout.checkpoint(name, seed), layout.receipt("train", f"{name}/seed{seed}")
    recorded = read_receipt(receipt) if receipt.exists() else None
    if recorded and recorded["outputs"].get(str(path), {}).get("md5") != digest(path, "md5"):
        raise UserError(f"{path} is not the file of its receipt; bring it back with `dvc checkout {path}`.")
    files = [layout.metrics(name, protocol, seed) for protocol in experiment.recipe.evaluation.protocols]
    measured = [read_json(file, dict[str, Any]) for file in files if file.exists()]
    sha256 = digest(path)
    of_this = [each for each in measured if each.get("provenance", {}).get("checkpoint_sha256") == sha256]
    return path, recorded and recorded["made"], of_this


def _written(folder: Path, checkpoint: Path, card: str) -> None:
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


def add_options(parser: argparse.ArgumentParser) -> None:
    text = "an experiment (demo/digits_rtm, demo/digits_rtm/seed1) or a file"
    parser.add_argument("checkpoint", type=given_target, help=text)
    parser.add_argument("repository", help="owner/name on the Hub; it is created if it is not there")
    parser.add_argument("--private", action="store_true", help="create it as a private repository")
    parser.add_argument("--out", type=given_path, metavar="FOLDER", help="only write the file and its card there")
