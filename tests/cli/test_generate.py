"""`rtm generate`: sheets and files contain the images of a seed, and a refusal is one sentence."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from support import PARAMS
from support.checkpoints import IMLE

import rtm
from rtm.checkpoints.png import sheet
from rtm.config import load
from rtm.stages.train import Train

WEIGHTS = Train().path(load("smoke", PARAMS), "checkpoint", experiment=IMLE, seed=0)


def pixels(path: Path) -> torch.Tensor:
    with Image.open(path) as image:
        image.load()
        assert image.mode == "RGB"
        assert json.loads(image.info["rtm"])["checkpoint"] == IMLE
        return torch.from_numpy(np.array(image))


def test_a_sheet_and_files_hold_the_images_of_the_seed(folder: Path, call: Any) -> None:
    generator = rtm.load(folder / WEIGHTS, "cpu")
    assert call("generate", f"smoke/{IMLE}", "--count", "5") == [f"generated/{IMLE}_count5.png"]
    drawn = pixels(folder / f"generated/{IMLE}_count5.png")
    assert drawn.shape == (2 * 64, 3 * 64, 3)
    assert torch.equal(drawn, sheet(generator(5)))
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
    (folder / "mine").write_text("text", "utf-8")
    path = str(WEIGHTS)
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


@pytest.mark.parametrize(("out", "message"), [("x.jpg", "write --out x.png"), ("images", "")])
def test_a_picture_is_a_png(folder: Path, call: Any, out: str, message: str) -> None:
    lines = call("generate", "gan.safetensors", "--count", "2", "--out", out)
    assert message in lines[0]
    assert (folder / out).exists() != bool(message)


def test_a_scale_is_no_checkpoint(call: Any) -> None:
    (line,) = call("generate", "smoke")
    assert line.startswith("rtm: smoke is a scale; name one of its experiments, for example smoke/")
