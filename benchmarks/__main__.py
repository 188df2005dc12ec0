"""Run all or the named benchmarks, and write benchmarks/results.json and docs/performance.png."""

import json
import pkgutil
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import benchmarks
from rtm.core.files import atomic, write_json

if TYPE_CHECKING:
    from benchmarks.measuring import Groups

RESULTS = Path(__file__).parent / "results.json"
PICTURE = Path(__file__).parents[1] / "docs" / "performance.png"


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
        kept = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {"machines": {}, "measured": {}}
        new = {"machines": {module: machine()}, "measured": {module: found}}
        write_json(RESULTS, {part: kept[part] | new[part] for part in new})
        draw(json.loads(RESULTS.read_text(encoding="utf-8"))["measured"], PICTURE)


if __name__ == "__main__":
    main(sys.argv[1:])
