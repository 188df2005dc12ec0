"""`rtm generate` and `rtm push-checkpoint` in a folder with params/ and one trained experiment."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pytest
import torch
from PIL import Image
from support import PARAMS, checkpoints
from support.checkpoints import GAN, IMLE

import rtm
from rtm.checkpoints.pictures import sheet
from rtm.cli import main as cli
from rtm.config import load
from rtm.core.files import digest, write_json

LAYOUT = load("smoke", PARAMS).layout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("work")
    shutil.copytree(PARAMS, root / "params")
    checkpoints.write(root / LAYOUT.checkpoint(IMLE, 0), IMLE)
    checkpoints.write(root / "gan.safetensors", GAN)
    return root


@pytest.fixture
def call(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*words: str) -> list[str]:
        """The lines that `rtm` prints; for a refusal its sentence."""
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["rtm", *words])
        try:
            cli.main()
        except SystemExit:
            return capsys.readouterr().err.splitlines()
        return capsys.readouterr().out.splitlines()

    return run


def pixels(path: Path) -> torch.Tensor:
    with Image.open(path) as image:
        image.load()
        assert image.mode == "RGB" and json.loads(image.info["rtm"])["checkpoint"] == IMLE
        return torch.from_numpy(np.array(image))


def test_a_sheet_and_files_hold_the_images_of_the_seed(folder: Path, call: Any) -> None:
    generator = rtm.load(folder / LAYOUT.checkpoint(IMLE, 0), "cpu")
    assert call("generate", f"smoke/{IMLE}", "--count", "5") == [f"generated/{IMLE}_count5.png"]
    drawn = pixels(folder / f"generated/{IMLE}_count5.png")
    assert drawn.shape == (2 * 64, 3 * 64, 3) and torch.equal(drawn, sheet(generator(5)))
    assert torch.equal(drawn[64:128, 64:128], generator(5)[4].repeat_interleave(8, 0).repeat_interleave(8, 1))
    named = [f"images/{IMLE}_3_{place:06d}.png" for place in (7, 8)]
    words = ("--scale", "smoke", "--count", "2", "--first", "7", "--seed", "3", "--H", "4", "--out", "images/")
    assert call("generate", f"{IMLE}/seed0", *words) == named
    for path, image in zip(named, generator(2, 3, 7, H=4), strict=True):
        assert torch.equal(pixels(folder / path), image)
    assert call("generate", f"smoke/{IMLE}", "--interpolate", "3", "--count", "2", "--out", "b.png") == ["b.png"]
    assert torch.equal(pixels(folder / "b.png"), sheet(generator.interpolate(3, 2).flatten(0, 1), 3))
    assert call("generate", f"smoke/{IMLE}", "--interpolate", "3", "--count", "2", "--out", "b.png") == ["b.png"]


def test_what_cannot_be_drawn_is_one_sentence(folder: Path, call: Any) -> None:
    (folder / "mine.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(200))
    (folder / "mine").write_text("text")
    path = str(LAYOUT.checkpoint(IMLE, 0))
    for words, message in {
        (path, "--class", "3"): "rtm: This checkpoint has no classes; leave the class out.",
        ("gan.safetensors", "--class", "zebra"): "rtm: There is no class zebra; choose 0 to 9.",
        (
            path,
            "--out",
            "mine.png",
        ): "rtm: mine.png is there and was not drawn by rtm; choose another --out, or move it away.",
        (path, "--out", "mine"): "rtm: mine is a file; give a folder with --out, or a name that ends with .png.",
        (path, "--count", "5000"): "rtm: A sheet holds 4,096 images; give a folder with --out, as in --out images/.",
        (path, "--count", "0"): "rtm: --count must be at least 1 and --first at least 0.",
        ("w.safetensors",): "rtm: There is no file w.safetensors; correct its path, or name an experiment.",
    }.items():
        assert call("generate", *words) == [message]
    (missing,) = call("generate", "smoke/shells_imle_mlp")
    assert missing.startswith(
        "rtm: smoke/checkpoints/shells_imle_mlp/seed0.safetensors is missing; train it with `rtm train"
    )
    assert "--scale smoke`" in missing
    assert (folder / "mine.png").stat().st_size == 208


def test_a_checkpoint_is_pushed_with_a_card_of_its_receipt(
    folder: Path, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = LAYOUT.checkpoint(IMLE, 0)
    file = folder / path
    made = {"time": "2026-11-17T12:00:00", "revision": "abc123", "gpu_hours": 2.5, "environment": {"torch": "2.12.0"}}
    parts = {"params": {}, "code": "c", "inputs": {}}
    outputs = {str(path): {"md5": digest(file, "md5"), "size": file.stat().st_size}}
    receipt = {"fingerprint": "f", "parts": parts, "outputs": outputs, "made": made}
    write_json(folder / LAYOUT.receipt("train", f"{IMLE}/seed0"), receipt)
    protocol, *_ = load("smoke", PARAMS).experiments[IMLE].recipe.evaluation.protocols
    numbers = {"fid": 12.5, "kid": 0.003, "kid_se": 0.001, "recall": 0.25}
    measured = {"experiment": IMLE, "protocol": protocol, "seed": 0, "samples": 64, "metrics": {"native": numbers}}
    measured |= {"intervals": {"native": {"fid": [11.5, 13.5]}}, "provenance": {"checkpoint_sha256": digest(file)}}
    write_json(folder / LAYOUT.metrics(IMLE, protocol, 0), measured)
    sent: dict[str, Any] = {}

    def upload_folder(*, repo_id: str, folder_path: Path, commit_message: str) -> None:
        sent.update({each.name: each.read_bytes() for each in Path(folder_path).iterdir()}, message=commit_message)

    monkeypatch.setattr(huggingface_hub, "create_repo", lambda repo_id, **options: sent.update(repo=repo_id, **options))
    monkeypatch.setattr(huggingface_hub, "upload_folder", upload_folder)
    assert call("push-checkpoint", f"smoke/{IMLE}", "owner/name") == ["hf://owner/name/seed0.safetensors"]
    card = sent["README.md"].decode()
    assert sent["repo"] == "owner/name" and sent["exist_ok"] and not sent["private"]
    assert sent["seed0.safetensors"] == file.read_bytes()
    for line in (
        'library_name: "rtm"',
        "# shells_imle_rtm, seed 0",
        "A generator of 8 × 8 px images of Shells, with the Recursive Token Mapper, trained by RS-IMLE.",
        "| licence of the dataset | web images, research use |",
        "| code revision | abc123 |",
        "| trained | 2026-11-17T12:00:00, 2.5 GPU-hours |",
        f"Protocol `{protocol}`, 64 samples:",
        "| FID | 12.5 | 11.5 to 13.5 |",
        "| recall | 0.25 |  |",
        'generator = rtm.load("hf://owner/name/seed0.safetensors")',
    ):
        assert line in card.splitlines()
    assert "kid_se" not in card
    assert call("push-checkpoint", "gan.safetensors", "owner/name", "--out", "card") == ["card"]
    alone = (folder / "card/README.md").read_text()
    assert "not recorded: this file has no receipt" in alone and "No metrics were recorded for this file." in alone
    write_json(folder / LAYOUT.receipt("train", f"{IMLE}/seed0"), {**receipt, "outputs": {}})
    (refused,) = call("push-checkpoint", f"smoke/{IMLE}", "owner/name")
    assert refused.startswith(f"rtm: {path} is not the file of its receipt; bring it back with")
    assert call("push-checkpoint", "gan.safetensors", "name") == [
        "rtm: name is no repository of the Hub; write owner/name."
    ]


class NoNetworkError(Exception):
    """What a library behind the Hub's raises: neither an OSError nor a ValueError."""


@pytest.mark.parametrize("kind", [OSError, NoNetworkError])
def test_the_hubs_refusal_is_one_sentence(call: Any, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise kind("401 Client Error\nand much more")

    monkeypatch.setattr(huggingface_hub, "create_repo", refuse)
    assert call("push-checkpoint", "gan.safetensors", "owner/name") == [
        "rtm: The Hub refused it or was not reached (401 Client Error); look at the network, log in with "
        "`hf auth login`, and run this again."
    ]


@pytest.mark.parametrize(("out", "message"), [("x.jpg", "write --out x.png"), ("images", "")])
def test_a_picture_is_a_png(folder: Path, call: Any, out: str, message: str) -> None:
    lines = call("generate", "gan.safetensors", "--count", "2", "--out", out)
    assert message in lines[0] and (folder / out).exists() != bool(message)


def test_a_scale_is_no_checkpoint(call: Any) -> None:
    (line,) = call("generate", "smoke")
    assert line.startswith("rtm: smoke is a scale; name one of its experiments, for example smoke/")
