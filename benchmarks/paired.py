"""Judge a change of a demo experiment on fresh seeds: `python -m benchmarks.paired imle.stagger=true`.

Both variants are trained and measured by the pipeline, in a folder of their own (demo/paired),
where a second call goes on. The table has the mean of each metric and the paired difference with its 95 % interval.
"""

import argparse
import copy
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from scipy import stats

from rtm.config import load
from rtm.core.readers import read_json
from rtm.lineage.freshness import Freshness
from rtm.lineage.recording import run
from rtm.stages.evaluate import Evaluate

PARAMS = Path(__file__).parents[1] / "params"
METRICS = ("fid", "precision", "recall", "density", "coverage", "sure", "is")


def enter(folder: Path, name: str, changes: list[str], seeds: list[int]) -> tuple[str, str]:
    """Go to a copy of params/ with two new experiments, the unchanged and the changed one; return their names."""
    shutil.copytree(PARAMS, folder / "params", dirs_exist_ok=True)
    os.chdir(folder)
    files = {key: Path(f"params/{key}.yaml") for key in ("demo", "recipes", "mappers", "decoders")}
    read: dict[str, Any] = {key: yaml.safe_load(path.read_text("utf-8")) for key, path in files.items()}
    entry = read["demo"]["demo"][name] | {"sweep": []}
    variant = "_".join([name, *("".join(c if c.isalnum() else "_" for c in change) for change in changes)]).lower()
    recipe = copy.deepcopy(read["recipes"]["recipes"][entry["recipe"]])
    mapper = copy.deepcopy(read["mappers"]["mappers"][entry["mapper"]])
    decoder = copy.deepcopy(read["decoders"]["decoders"][recipe["decoder"]])
    for change in changes:
        place, value = change.split("=", 1)
        section, key = place.split(".")
        {"mapper": mapper, "decoder": decoder}.get(section, recipe.get(section))[key] = yaml.safe_load(value)
    recipe["decoder"] = variant
    read["decoders"]["decoders"][variant] = decoder
    read["recipes"]["recipes"][f"{variant}_imle"] = recipe
    read["mappers"]["mappers"][variant] = mapper
    read["demo"]["demo"][base := f"{name}_unchanged"] = entry | {"seeds": seeds}
    read["demo"]["demo"][variant] = entry | {"recipe": f"{variant}_imle", "mapper": variant, "seeds": seeds}
    for key, path in files.items():
        path.write_text(yaml.safe_dump(read[key], sort_keys=False), "utf-8")
    return base, variant


def measured(name: str, seed: int, protocol: str) -> dict[str, float]:
    """The metrics of one seed, made by the pipeline."""
    job = Evaluate().job(load("demo"), experiment=name, protocol=protocol, seed=seed)
    metrics = job.first
    if not metrics.exists():
        for needed in job.upstream():
            if not Freshness().is_fresh(needed):
                run(needed)
    found: dict[str, float] = read_json(metrics)["metrics"]["native"]
    return found


def show(base: list[dict[str, float]], changed: list[dict[str, float]]) -> None:
    print(f"{'metric':<10} {'base':>9} {'changed':>9} {'difference':>11}   95 % interval, {len(base)} seeds")
    for metric in METRICS:
        a, b = (np.array([each[metric] for each in rows]) for rows in (base, changed))
        half = stats.sem(b - a) * stats.t.ppf(0.975, len(a) - 1)
        mean = (b - a).mean()
        print(f"{metric:<10} {a.mean():9.3f} {b.mean():9.3f} {mean:+11.3f}   {mean - half:+.3f} to {mean + half:+.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paired", description=__doc__)
    parser.add_argument("changes", nargs="+", help="section.key=value of recipe, mapper or decoder: imle.stagger=true")
    parser.add_argument("--experiment", default="digits_rtm", help="of params/demo.yaml (default: %(default)s)")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(10, 20)), help="default: 10 to 19")
    arguments = parser.parse_args()
    unchanged, variant = enter(Path("demo/paired"), arguments.experiment, arguments.changes, arguments.seeds)
    config = load("demo")
    experiment = config.experiment(variant)
    protocol = experiment.recipe.evaluation.protocols[0]
    base: list[dict[str, float]] = []
    changed: list[dict[str, float]] = []
    for seed in arguments.seeds:
        base.append(measured(unchanged, seed, protocol))
        changed.append(measured(variant, seed, protocol))
        if len(base) > 1:
            show(base, changed)


if __name__ == "__main__":
    main()
