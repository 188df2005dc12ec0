"""Run every benchmark of this package and write benchmarks/results.json and benchmarks/results.png."""

import importlib
import pkgutil
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

import benchmarks
from benchmarks.measuring import Groups, machine, show
from rtm.files import atomic, write_json

FOLDER = Path(__file__).parent


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


def main() -> None:
    groups: Groups = {}
    for module in pkgutil.iter_modules(benchmarks.__path__):
        if not module.name.startswith("__") and module.name != "measuring":
            found: Groups = importlib.import_module(f"benchmarks.{module.name}").measure()
            show(found)
            groups |= found
    write_json(FOLDER / "results.json", {"machine": machine(), "measured": groups})
    draw(groups, FOLDER / "results.png")


if __name__ == "__main__":
    main()
