"""docs/extending.md works: its code, its entries in params/ and its commands, in the page's order, at small size."""

import re
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml
from support import PARAMS, ROOT, own_classes, smoke_workspace

from rtm.cli import main as cli
from rtm.config import load
from rtm.lineage.receipts import Ledger
from rtm.pipeline.graph import jobs

PAGE = (ROOT / "docs/extending.md").read_text()
OTHERS = ("demo/train/digits_rtm/seed0", "fetch/cifar10")


@dataclass(frozen=True)
class Block:
    language: str
    text: str

    @property
    def place(self) -> str:
        """The file that its first line names."""
        first = re.match(r"# ([\w./]+)", self.text)
        assert first, self.text
        return first[1]

    def write(self) -> None:
        """Add the text at the end of its file, or a row (`# FILE: TABLE, rows`) at the end of its table."""
        table = re.match(r"# \S+: (\w+), rows\n", self.text)
        path = Path(self.place)
        before = path.read_text() if path.exists() else ""
        end = re.search(rf"^  {table[1]}:\n(?:    .*\n)+", before, re.M) if table else None
        place = end.end() if end else len(before)
        path.write_text(f"{before[:place].rstrip()}\n{self.text}{before[place:]}")


BLOCKS = [Block(language, text) for language, text in re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.S | re.M)]


def smaller() -> None:
    """Make a training of the demo take seconds: few steps, a small pool."""
    path = Path("params/recipes.yaml")
    recipes = yaml.safe_load(path.read_text())
    recipe = recipes["recipes"]["digits_imle"]
    recipe["training"] |= {"steps": 4, "epochs": None, "decay": 1.0, "decay_epochs": None, "watch": None, "batch": 8}
    recipe["imle"] |= {"pool": 1.0, "refresh": 1}
    path.write_text(yaml.safe_dump(recipes, sort_keys=False))


def fingerprints() -> dict[str, str]:
    graph = {job.id: job for scale in ("demo", "paper") for job in jobs(load(scale)).values()}
    return {name: Ledger().fingerprint(graph[name]) for name in OTHERS}


def run(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    cli.main()


@pytest.mark.slow(seconds=12)
def test_the_page_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(PARAMS, "params")
    smaller()
    smoke_workspace.fetch(load("demo"), "digits300")
    before = fingerprints()
    own_classes.install(tmp_path, "my_models", "", monkeypatch)
    for block in BLOCKS:
        if block.language in ("python", "yaml") and not block.place.startswith("rtm/"):
            block.write()
            own_classes.forget("my_models")
        elif not block.language:
            for line in block.text.splitlines():
                run(monkeypatch, line.removeprefix("$ "))
    assert fingerprints() == before
    assert Path("demo/checkpoints/digits_residual/seed0.safetensors").is_file()
    assert Path("generated/digits_residual.png").is_file() and Path("galleries/data/squares.png").is_file()
    assert "Residual MLP" in Path("demo/reports/tab_digits_depth.tex").read_text()
    shown = capsys.readouterr().out
    assert "200 of 8 x 8 px" in shown and "generated/digits_residual.png" in shown
    assert load("demo").params.decoders["flat"].model_dump() == {"kind": "my_models:Flat", "gain": 0.5}


def test_the_metric_of_the_page_is_a_line_of_measure() -> None:
    (block,) = (each for each in BLOCKS if each.language == "python" and each.place.startswith("rtm/"))
    features = np.arange(12.0).reshape(4, 3)
    metrics: dict[str, Any] = {}
    fake = SimpleNamespace(quality=SimpleNamespace(features=features))
    exec(f"if True:\n{block.text}", {"metrics": metrics, "fake": fake})
    assert metrics == {"spread": pytest.approx(features.std(0).mean())}
    assert "def measure(fake: ImageSet" in (ROOT / block.place).read_text()


def test_every_block_says_where_it_belongs() -> None:
    assert len([each for each in BLOCKS if each.language]) >= 8
    for block in BLOCKS:
        assert block.place if block.language else block.text.startswith("$ rtm ")
