"""Run every benchmark, or those named, and write benchmarks/results.json, docs/performance.md and its picture."""

import importlib
import json
import pkgutil
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

import benchmarks
from benchmarks.measuring import Groups, machine, show
from rtm.files import atomic, write_json, write_text

RESULTS = Path(__file__).parent / "results.json"
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
HEAD = """\
# Performance

Measured by `python -m benchmarks` on {processor} (torch {torch}, Python {python}): CPU seconds of one thread unless it
says wall time; what is compared takes turns in one process. All numbers: [`results.json`](../benchmarks/results.json).

The literal Algorithm 1 is the transcription that the tests hold RTM against. Matrix products are most of both, and
"the most there is to gain" bounds what any layout can bring; what the literal one allocates costs it more or less,
depending on what the process did before.

![bars of every measurement](performance.png)
"""


def draw(groups: Groups, path: Path) -> None:
    """One panel of bars for each group."""
    heights = [len(values) for values in groups.values()]
    figure, panels = pyplot.subplots(
        len(groups), 1, figsize=(8, 0.35 * sum(heights) + 0.7 * len(heights)), height_ratios=heights, squeeze=False
    )
    for panel, (group, values) in zip(panels[:, 0], groups.items(), strict=True):
        bars = panel.barh(list(values), list(values.values()), color="#4477aa")
        panel.bar_label(bars, fmt="%.3g", padding=3)
        panel.set_title(group, loc="left", fontsize=10)
        panel.invert_yaxis()
        panel.margins(x=0.12)
        panel.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    with atomic(path) as file:
        figure.savefig(file, format="png", dpi=120)


def page(groups: Groups, processor: dict[str, str]) -> str:
    parts = [HEAD.format(**processor)]
    for group, values in groups.items():
        rows = [f"| {name} | {value:.3g} |" for name, value in values.items()]
        parts.append("\n".join([f"## {group}\n", "| | |", "|---|---|", *rows, ""]))
    return "\n".join(parts)


def main(names: list[str]) -> None:
    """Run the named benchmarks, or all; the others keep their numbers."""
    groups: Groups = json.loads(RESULTS.read_text())["measured"] if names and RESULTS.exists() else {}
    for module in pkgutil.iter_modules(benchmarks.__path__):
        chosen = module.name in names if names else not module.name.startswith("__") and module.name != "measuring"
        if chosen:
            found: Groups = importlib.import_module(f"benchmarks.{module.name}").measure()
            show(found)
            groups |= found
            write_json(RESULTS, {"machine": machine(), "measured": groups})
            write_text(PAGE, page(groups, machine()))
            draw(groups, PAGE.with_suffix(".png"))


if __name__ == "__main__":
    main(sys.argv[1:])
