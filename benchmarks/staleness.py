"""How long Snakemake and DVC take if there is nothing to do, against the number of experiments (wall time)."""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.measuring import Groups, show

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from support.standin import DEMO, EXPERIMENTS, Repository

COMMANDS = {
    "snakemake -n": ("snakemake", "-n", "--quiet", "--", "all", "demo"),
    "dvc status": ("dvc", "status", "-q"),
    "dvc repro": ("dvc", "repro", "-q"),
}


def finished(folder: Path, experiments: int) -> Repository:
    """A repository in which all experiments, in one table, are finished and recorded; their jobs write a few bytes."""
    repository = Repository.create(folder)
    added = experiments - len(EXPERIMENTS) - len(DEMO)
    entry = {"recipe": "cifar10_imle", "mapper": "rtm_16_1", "seeds": [0, 1, 2, 3]}
    new = {f"cifar10_{number}": entry for number in range(added)}
    repository.dump("experiments", EXPERIMENTS | new)

    def add_rows(tables: dict[str, Any]) -> None:
        tables["tab_cifar10"]["groups"][0]["rows"] += [{"title": name, "experiment": name} for name in new]

    repository.change("tables", add_rows)
    for command in ("rtm lineage dvc", "rtm everything", "dvc commit -q -f"):
        repository.run(*command.split())
    repository.commit("everything")
    return repository


def waited(repository: Repository, *command: str) -> float:
    began = time.perf_counter()
    repository.run(*command)
    return time.perf_counter() - began


def measure(sizes: tuple[int, ...] = (15, 50, 200)) -> Groups:
    """Measure experiments with four seeds each: 50 experiments have about 800 jobs, 200 have about 3,000."""
    groups: Groups = {}
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            repository = finished(Path(folder) / "repository", size)
            assert repository.planned() == []
            times = {name: waited(repository, *command) for name, command in COMMANDS.items()}
            assert repository.ran() == []
        groups[f"nothing to be done in {size} experiments, s"] = times
    before, last = (groups[f"nothing to be done in {size} experiments, s"] for size in sizes[-2:])
    added = f"each further experiment from {sizes[-2]} to {sizes[-1]}, s"
    groups[added] = {name: (last[name] - before[name]) / (sizes[-1] - sizes[-2]) for name in COMMANDS}
    return groups


if __name__ == "__main__":
    show(measure())
