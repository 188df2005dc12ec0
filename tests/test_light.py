"""Parts that need only torch and safetensors run where nothing else is installed. Other parts name what they need."""

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from safetensors.torch import save_file
from support import ROOT, checkpoints

from rtm.models.digits import DigitClassifier

REFUSING = """
import json, sys
from importlib.abc import MetaPathFinder

class Without(MetaPathFinder):
    names, finders = set(json.loads({names!r})), sys.meta_path[:]

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.names:
            return None
        return next((spec for each in self.finders if (spec := each.find_spec(name, path, target))), None)

sys.meta_path[:] = [Without()]
"""


def needed(distribution: str, found: set[str]) -> set[str]:
    """A distribution and all its requirements."""
    if (name := canonicalize_name(distribution)) not in found:
        found.add(name)
        try:
            listed = [Requirement(each) for each in requires(name) or ()]
        except PackageNotFoundError:
            return found
        for each in listed:
            if each.marker is None or each.marker.evaluate({"extra": ""}):
                needed(each.name, found)
    return found


def others(*more: str) -> list[str]:
    """All installed modules that torch, safetensors and `more` do not require."""
    light = set[str]()
    for distribution in ("torch", "safetensors", *more):
        needed(distribution, light)
    kept = {"rtm", "tests", *sys.stdlib_module_names}
    owners = packages_distributions().items()
    return sorted(
        module for module, dists in owners if module not in kept and not light & {*map(canonicalize_name, dists)}
    )


def run(folder: Path, code: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Run code where only torch, safetensors, `more` and their requirements are installed."""
    script = REFUSING.format(names=json.dumps(others(*more))) + code
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, "-c", script], cwd=folder, env=environment, capture_output=True, text=True)


CODE = """
import torch, rtm
from rtm.models.stylegan2.mapping import StyleMapping
from rtm.models.decoders import Decoder

w = rtm.RTM(32, tokens=None, width=8, H=2, L=1)(torch.randn(3, 32))
Decoder(32, "residual", {1: 1, 4: 1, 8: 1}, 8)(rtm.MLPMapper(32, 2)(w))
StyleMapping.rtm(16, 0, 16, 4, width=8)(torch.randn(2, 16))
for name in ("imle", "gan"):
    images = rtm.load(f"{name}.safetensors")(count=4, seed=1, truncation=0.7)
    assert images.shape == (4, 8, 8, 3), images.shape
try:
    rtm.load("hf://owner/name/w.safetensors")
except Exception as error:
    print(error)
import sys
sys.argv = ["rtm", "generate", "imle.safetensors", "--count", "9", "--H", "3"]
from rtm.__main__ import main
main()
sys.argv = ["rtm", "generate", "desk/desk_rtm", "--count", "4"]
main()
loaded = {name.split(".")[0] for name in sys.modules}
print(sorted(loaded & Without.names))
sys.argv = ["rtm", "train", "digits_rtm"]
main()
"""


MEASURING = """
import sys, numpy as np, rtm
images = np.random.default_rng(0).integers(0, 256, (60, 8, 8, 3), dtype=np.uint8)
np.save("a.npy", images[:30]), np.save("b.npy", images[30:])
result = rtm.evaluate("a.npy", images[30:], "digits")
assert 0 <= result.precision <= 1 and len(result.fid_interval) == 2 and result.as_dict()["samples"] == 30
sys.argv = ["rtm", "evaluate", "a.npy", "b.npy", "--protocol", "digits", "--samples", "20", "--json", "result.json"]
from rtm.__main__ import main
main()
assert not {name.split(".")[0] for name in sys.modules} & Without.names
"""


@pytest.mark.slow(seconds=8)
def test_any_images_are_measured_with_the_metrics_extra_alone(tmp_path: Path) -> None:
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]["metrics"]
    names = [Requirement(each).name for each in extra]
    assert {"snakemake", "dvc", "pandas", "matplotlib", "ruamel"} <= set(others(*names))
    (tmp_path / "weights").mkdir()
    save_file(DigitClassifier().state_dict(), tmp_path / "weights/digit_classifier.safetensors")
    done = run(tmp_path, MEASURING, *names)
    assert "a.npy (20 of its 30 images) against b.npy (30 images), protocol digits" in done.stdout, done.stderr
    assert json.loads((tmp_path / "result.json").read_text("utf-8"))["samples"] == 20


@pytest.mark.slow(seconds=4)
def test_mappers_decoders_and_checkpoints_need_torch_and_safetensors_alone(tmp_path: Path) -> None:
    assert {"numpy", "pydantic", "yaml", "PIL", "rich", "snakemake", "dvc", "scipy"} <= set(others())
    checkpoints.write(tmp_path / "imle.safetensors", checkpoints.IMLE)
    checkpoints.write(tmp_path / "gan.safetensors", checkpoints.GAN)
    for place in (".dvc/config", "desk/store", "desk/lineage/train/desk_rtm"):  # as in a clone
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).symlink_to(ROOT / place)
    done = run(tmp_path, CODE)
    lines = done.stdout.splitlines()
    hub = "huggingface_hub is not installed; get it with `pip install huggingface_hub`, then hf://owner/name/w.safetensors"
    pictures = ["generated/imle_count9_H3.png", "generated/desk_rtm_count4.png"]
    assert lines == [f"{hub} can be read.", *pictures, "[]"], done.stderr
    assert (tmp_path / "generated/imle_count9_H3.png").stat().st_size > 1000
    assert done.returncode == 1
    clone = r"`pip install -e '.\[pipeline\]'` in a clone of the repository"
    missing = rf"rtm: \w+ is not installed; run {clone} for all verbs but generate and evaluate.*"
    assert re.fullmatch(missing, done.stderr.strip().splitlines()[-1])
