"""docs/quickstart.ipynb runs as it is stored, and gives the same kinds of outputs as it stores."""

import json

import pytest
from support import ROOT
from support.notebook import run

NOTEBOOK = ROOT / "docs/quickstart.ipynb"


@pytest.mark.slow(seconds=8)
def test_the_quickstart_runs_and_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    stored, executed = (json.loads(NOTEBOOK.read_text("utf-8")) for _ in range(2))
    names = run(executed)
    assert names["losses"][-1] < 0.3 * names["losses"][0]
    cells = [[each for each in notebook["cells"] if each["cell_type"] == "code"] for notebook in (stored, executed)]
    assert cells[0][0]["outputs"] == cells[1][0]["outputs"]  # sizes of the mappers are the same on every machine
    kinds = [[[output["output_type"] for output in each["outputs"]] for each in part[:3]] for part in cells]
    assert kinds[0] == kinds[1] == [["stream"], ["stream"], ["display_data"]]
    assert NOTEBOOK.stat().st_size < 200_000
