"""The jobs that a target names, and answers to words that are no target."""

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path

from rtm.core.errors import UserError
from rtm.lineage.job import Job, Stage

RULE_OPTIONS = ("-R", "-U", "-O", "--forcerun", "--until", "--omit-from", "--allowed-rules", "--set-", "--config", "-C")


def find(graph: Mapping[str, Job], target: str) -> list[Job]:
    """The jobs that a target names. It is a file, an id, or the beginning of ids ("train/cifar10_imle_rtm")."""
    path = Path(target)
    made = [job for job in graph.values() if path in (*job.outputs, job.receipt)]
    named = made or [job for job in graph.values() if f"{job.id}/".startswith(f"{target.rstrip('/')}/")]
    if named:
        return named
    raise UserError(f"Nothing makes {target}{_suggested(target, _targets(graph))}.")


def check_targets(graph: Mapping[str, Job], arguments: Iterable[str]) -> None:
    """Raise an error for an argument that looks like a result but is not; the message suggests names."""
    # an .html file may belong to Snakemake's own --report
    results = (job for job in graph.values() if job.stage is not Stage.REPORT)
    outputs = {str(path): (job.root, path.suffix) for job in results for path in job.outputs}
    places = {(root + path.removeprefix(root).split("/")[0] + "/", suffix) for path, (root, suffix) in outputs.items()}
    words = list(arguments)
    for place, argument in enumerate(words):
        if meant := _meant(graph, argument, words[:place]):
            raise UserError(f"{argument} is not a target of Snakemake; {meant}.")
        looks = any(suffix and argument.startswith(folder) and argument.endswith(suffix) for folder, suffix in places)
        if looks and argument not in outputs:
            raise UserError(f"Nothing makes {argument}{_suggested(argument, outputs)}.")


def _meant(graph: Mapping[str, Job], word: str, before: list[str]) -> str | None:
    """The advice for a word that names a scale, stage, table, figure, experiment, dataset or network."""
    option = next((each for each in reversed(before) if each.startswith("-")), "")
    if option != "--" and option.startswith(RULE_OPTIONS):
        return None
    named = [job for job in graph.values() if word in (job.subject.name, job.subject.experiment)]
    if word == "paper":
        return "`snakemake all` makes everything of the paper"
    if word in list(Stage):
        example = next(job for job in graph.values() if job.stage == word)
        return f"it is a stage; name a file that it makes, for example {example.outputs[0]}"
    if not named:
        return None
    last = [job for job in named if job.stage in (Stage.TABLE, Stage.FIGURE, Stage.SUMMARY, Stage.FETCH)] or named
    return f"you may mean {' or '.join(dict.fromkeys(str(job.outputs[0]) for job in last))}"


def _targets(graph: Mapping[str, Job]) -> dict[str, None]:
    """All valid targets: names of files, of jobs, and of the jobs of all seeds."""
    names = ([*map(str, job.outputs), job.id, str(Path(job.id).parent)] for job in graph.values())
    return dict.fromkeys(name for each in names for name in each)


def _suggested(target: str, known: Iterable[str]) -> str:
    """The most similar names; if there are none, the files of the target's folder, or the tables."""
    folder = str(Path(target).parent)
    options = list(known)
    near = difflib.get_close_matches(target, options, n=5, cutoff=0.75)
    beside = [name for name in options if str(Path(name).parent) == folder and name.endswith(Path(target).suffix)]
    chosen = near or beside or [name for name in options if name.endswith(".tex")]
    return f"; choose one of {', '.join(chosen)}" if chosen else ""
