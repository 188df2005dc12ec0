"""Versions of the packages that a stage used, in a fresh process and in a process that imported everything before."""

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
from contextlib import suppress
from pathlib import Path
from rtm.core.errors import UserError
from rtm.core.layout import Layout
from rtm.lineage.versions import PRELOADED, loaded_versions

def summary():
    import rtm.reports.summary
    return loaded_versions("rtm.reports.summary:write_summary")

def evaluate(network):
    from rtm.metrics.evaluate import extractor_of
    with suppress(UserError):  # there are no weights here
        extractor_of(network, type("Protocol", (), {"resize": "tf1"}), Layout(Path("nowhere"), Path("nowhere")))
    return loaded_versions("rtm.metrics.evaluate")

found = {"summary": summary(), "digits": evaluate("digit_classifier"), "inception": evaluate("inception")}
from rtm.cli.forkserver import MODULES
for module in MODULES:
    importlib.import_module(module)
PRELOADED.update(sys.modules)
print(json.dumps(found | {"forked summary": summary(), "forked digits": evaluate("digit_classifier")}))
"""


@pytest.mark.slow(seconds=7)
def test_a_stage_names_what_its_code_used_and_nothing_else() -> None:
    ran = subprocess.run([sys.executable, "-c", STAGES], capture_output=True, text=True, check=True, cwd=ROOT)
    found = json.loads(ran.stdout)
    digits = found["digits"]
    assert not {"torch", "numpy", "scipy", "matplotlib"} & set(found["summary"])
    assert {"torch", "numpy", "scipy", "safetensors"} <= set(digits) and digits["torch"] == version("torch")
    assert not {"torch-fidelity", "torchvision", "lpips", "pandas"} & set(digits)
    assert found["inception"] == digits | {"torch-fidelity": version("torch-fidelity")}
    assert (found["forked summary"], found["forked digits"]) == (found["summary"], digits)


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
