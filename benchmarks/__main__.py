"""Run all or the named benchmarks, and write benchmarks/results.json, docs/performance.md and its picture."""

import json
import pkgutil
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import benchmarks
from rtm.core.files import atomic, write_json, write_text

if TYPE_CHECKING:
    from benchmarks.measuring import Groups

RESULTS = Path(__file__).parent / "results.json"
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
HEAD = """\
# Performance

Measured by `python -m benchmarks`: CPU seconds of one thread, or wall time where it says so. Compared programs take
turns in one process. All numbers: [`results.json`](../benchmarks/results.json).

The literal Algorithm 1 is the plain transcription of the paper that the tests compare RTM with. Both spend most of
their time in matrix products; "the most there is to gain" is the limit for any implementation. The cost of the literal
one varies with the memory that the process allocated before.

![bars of every ratio](performance.png)
"""


def subject(module: str) -> str:
    return (import_module(f"benchmarks.{module}").__doc__ or module).splitlines()[0].rstrip(".")


def draw(measured: "dict[str, Groups]", path: Path) -> None:
    """Draw one panel of bars for each group of ratios."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    ratios = {name: values for groups in measured.values() for name, values in groups.items() if "ratios" in name}
    heights = [len(values) + 1 for values in ratios.values()]
    figure, panels = pyplot.subplots(
        len(ratios), 1, figsize=(9, 0.35 * sum(heights)), height_ratios=heights, squeeze=False, layout="constrained"
    )
    for panel, (group, values) in zip(panels[:, 0], ratios.items(), strict=True):
        bars = panel.barh(list(values), list(values.values()), color="#4477aa")
        panel.bar_label(bars, fmt="%.3g", padding=3)
        panel.axvline(1, color="black", linewidth=0.8)
        panel.set_title(group, loc="left", fontsize=10)
        panel.invert_yaxis()
        panel.margins(x=0.12)
        panel.spines[["top", "right"]].set_visible(False)
    with atomic(path) as file:
        figure.savefig(file, format="png", dpi=100)


def page(measured: "dict[str, Groups]", machines: dict[str, dict[str, str]]) -> str:
    parts = [HEAD]
    for module, groups in measured.items():
        where = "On {processor}, torch {torch}, Python {python}:".format(**machines[module])
        parts.append(f"## {subject(module)}\n\n{where}\n")
        for group, values in groups.items():
            rows = [f"| {name} | {value:.3g} |" for name, value in values.items()]
            parts.append("\n".join([f"| {group} | |", "|---|---|", *rows, ""]))
    return "\n".join(parts)


def main(names: list[str]) -> None:
    """Run the named benchmarks, or all; other benchmarks keep their numbers."""
    everything = [
        m.name
        for m in pkgutil.iter_modules(benchmarks.__path__)
        if m.name not in ("__main__", "intervals", "known", "measuring", "paired")
    ]
    if unknown := [name for name in names if name not in everything]:
        sys.exit(f"There is no benchmark {', '.join(unknown)}; choose from {', '.join(everything)}.")
    from benchmarks.measuring import machine, show  # after the check of names, because torch is slow to import

    for module in names or everything:
        found: Groups = import_module(f"benchmarks.{module}").measure()
        show(found)
        kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"machines": {}, "measured": {}}
        new = {"machines": {module: machine()}, "measured": {module: found}}
        write_json(RESULTS, {part: kept[part] | new[part] for part in new})
        write_page()


def write_page() -> None:
    results = json.loads(RESULTS.read_text())
    write_text(PAGE, page(results["measured"], results["machines"]))
    draw(results["measured"], PAGE.with_suffix(".png"))


if __name__ == "__main__":
    main(sys.argv[1:])
