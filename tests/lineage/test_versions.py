"""Versions of what a stage used, in a process that has imported everything beforehand and in a fresh one."""

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from support import ROOT

from rtm.lineage import versions
from rtm.lineage.versions import loaded_versions

STAGES = """
import importlib, json, sys
from pathlib import Path
from rtm.lineage.versions import PRELOADED, loaded_versions
if sys.argv[1] == "preloaded":
    from rtm.cli.forkserver import MODULES
    for module in MODULES:
        importlib.import_module(module)
    PRELOADED.update(sys.modules)
found = []
import rtm.reports.summary
found.append(loaded_versions("rtm.reports.summary:write_summary"))
from rtm.metrics.evaluate import extractor_of
from rtm.core.layout import Layout
from rtm.core.errors import UserError
for network in ("digit_classifier", "inception"):
    protocol = type("Protocol", (), {"resize": "tf1"})
    try:
        extractor_of(network, protocol, Layout(Path("nowhere"), Path("nowhere")))
    except UserError:  # there are no weights here
        pass
    found.append(loaded_versions("rtm.metrics.evaluate"))
print(json.dumps(found))
"""


@pytest.mark.parametrize("process", ["fresh", "preloaded"])
def test_a_stage_names_what_its_code_used_and_nothing_else(process: str) -> None:
    ran = subprocess.run([sys.executable, "-c", STAGES, process], capture_output=True, text=True, check=True, cwd=ROOT)
    summary, digits, inception = (dict(each) for each in json.loads(ran.stdout))
    assert not {"torch", "numpy", "scipy", "matplotlib"} & set(summary)
    assert {"torch", "numpy", "scipy", "safetensors"} <= set(digits)
    assert not {"torch-fidelity", "torchvision", "lpips", "faiss-gpu", "faiss-cpu", "pandas"} & set(digits)
    assert inception == digits | {"torch-fidelity": version("torch-fidelity")}
    assert digits["torch"] == version("torch")


def test_imports_for_types_and_of_absent_packages_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = type(sys)("rtm.stage")
    module.__file__ = str(tmp_path / "stage.py")
    monkeypatch.setitem(sys.modules, "rtm.stage", module)
    Path(module.__file__).write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import torch\n"
        "try:\n    import sklearn\nexcept ImportError:\n    pass\n"
        "class Lazy:\n    def load(self):\n        from PIL import Image\n        import numpy\n"
    )
    monkeypatch.setitem(sys.modules, "sklearn", module)
    monkeypatch.setitem(sys.modules, "PIL", module)
    monkeypatch.setitem(sys.modules, "PIL.Image", module)
    monkeypatch.setattr(versions, "PRELOADED", {"numpy"})
    assert loaded_versions("rtm.stage") == {"pillow": version("pillow"), "scikit-learn": version("scikit-learn")}
    assert loaded_versions("rtm.absent") == {}
