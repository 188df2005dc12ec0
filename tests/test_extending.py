"""docs/extending.md works: its code, its entries in params/ and its commands, in the page's order, at small size."""

import re
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from support import PARAMS, ROOT, own_classes, smoke_workspace
from support.image_sets import PROTOCOL, image_set

from rtm.cli import main as cli
from rtm.config import load
from rtm.config.catalogue import METRICS, Metric
from rtm.lineage.freshness import Freshness
from rtm.metrics.measure import measure
from rtm.stages.graph import jobs

PAGE = (ROOT / "docs/extending.md").read_text("utf-8").partition("\n## RTM in other generators")[0]
OTHERS = ("demo/train/digits_rtm/seed0", "dataset/cifar10")
OF_THE_METRIC = ("my_metrics.py", "rtm/config/catalogue.py")


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
        before = path.read_text("utf-8") if path.exists() else ""
        end = re.search(rf"^  {table[1]}:\n(?:    .*\n)+", before, re.M) if table else None
        place = end.end() if end else len(before)
        path.write_text(f"{before[:place].rstrip()}\n{self.text}{before[place:]}", "utf-8")


BLOCKS = [Block(language, text) for language, text in re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.S | re.M)]


def smaller() -> None:
    """Make a training of the demo take seconds: few steps, a small pool."""
    path = Path("params/recipes.yaml")
    recipes = yaml.safe_load(path.read_text("utf-8"))
    recipe = recipes["recipes"]["digits_imle"]
    recipe["training"] |= {
        "epochs": 1,
        "decay": 1.0,
        "decay_epochs": None,
        "watch": None,
        "batch": 75,
    }
    recipe["imle"] |= {"pool": 1.0, "refresh": 1}
    path.write_text(yaml.safe_dump(recipes, sort_keys=False), "utf-8")


def fingerprints() -> dict[str, str]:
    graph = jobs(load("demo")) | jobs(load("paper"))
    return {name: Freshness().fingerprint(graph[name]) for name in OTHERS}


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
        if block.language in ("python", "yaml") and block.place not in OF_THE_METRIC:
            block.write()
            own_classes.forget("my_models")
        elif not block.language:
            for line in block.text.splitlines():
                run(monkeypatch, line.removeprefix("$ "))
    assert fingerprints() == before
    assert Path("demo/checkpoints/digits_residual/seed0.safetensors").is_file()
    assert Path("generated/digits_residual.png").is_file()
    assert Path("galleries/data/squares.png").is_file()
    assert "Residual MLP" in Path("demo/reports/tab_digits_depth.tex").read_text("utf-8")
    shown = capsys.readouterr().out
    assert "200 of 8 x 8 px" in shown
    assert "generated/digits_residual.png" in shown
    assert load("demo").params.decoders["flat"].model_dump() == {"kind": "my_models:Flat", "gain": 0.5}


def test_the_metric_of_the_page_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its row names its function, and metrics files get its value."""
    texts = {block.place: block.text for block in BLOCKS if block.language == "python"}
    (row,) = eval(f"({texts['rtm/config/catalogue.py']})", {"Metric": Metric})
    own_classes.install(tmp_path, "my_metrics", texts["my_metrics.py"], monkeypatch)
    monkeypatch.setitem(METRICS, row.name, row)
    fake = image_set(60, seed=1)
    measured = measure(fake, image_set(80, seed=2), PROTOCOL)
    assert measured.metrics["spread"] == pytest.approx(float(fake.quality.features.std(0).mean()), abs=1e-6)


def test_every_block_says_where_it_belongs() -> None:
    assert len([each for each in BLOCKS if each.language]) >= 8
    for block in BLOCKS:
        assert block.place if block.language else block.text.startswith("$ rtm ")
