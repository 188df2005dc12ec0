"""Run a notebook without Jupyter. `python tests/support/notebook.py docs/quickstart.ipynb` stores its outputs."""

import base64
import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def run(notebook: dict[str, Any]) -> dict[str, Any]:
    """Execute the cells in order and fill in their outputs; return the variables that the cells defined."""
    names: dict[str, Any] = {"__name__": "__main__"}
    number = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            number += 1
            with redirect_stdout(io.StringIO()) as printed:
                exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
            cell["execution_count"] = number
            cell["outputs"] = _shown(printed.getvalue())
    return names


def _shown(text: str) -> list[dict[str, Any]]:
    outputs: list[dict[str, Any]] = []
    if text:
        outputs.append({"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)})
    for figure in map(plt.figure, plt.get_fignums()):
        picture = io.BytesIO()
        figure.savefig(picture, format="png", dpi=72, bbox_inches="tight")
        data = {"image/png": base64.b64encode(picture.getvalue()).decode(), "text/plain": ["a figure"]}
        outputs.append({"output_type": "display_data", "data": data, "metadata": {}})
    plt.close("all")
    return outputs


if __name__ == "__main__":
    path = Path(sys.argv[1])
    notebook = json.loads(path.read_text("utf-8"))
    run(notebook)
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")
