"""Answers to words on Snakemake's command line that are no target."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from rtm.core.errors import UserError
from rtm.stages import stages
from rtm.stages.base import Job
from rtm.stages.graph import Graph, suggested

RULE_OPTIONS = ("-R", "-U", "-O", "--forcerun", "--until", "--omit-from", "--allowed-rules", "--set-", "--config", "-C")
SHOWN = ("table", "figure", "summary", "dataset", "network")  # their files stand for a name


def check_targets(graph: Graph, arguments: Iterable[str]) -> None:
    """Raise an error for an argument that looks like a result but is not; the message suggests names."""
    results = [job for job in graph.values() if job.stage.name != "report"]  # .html may belong to Snakemake's --report
    outputs = [path for job in results for path in job.outputs.values()]
    kinds = {(path.parts[0], path.suffix) for path in outputs}
    words = list(arguments)
    for place, word in enumerate(words):
        path = Path(word)
        if path in outputs or _are_rules(words[:place]):
            continue
        if meant := _meant(graph, word):
            raise UserError(f"{word} is not a target of Snakemake; {meant}.")
        if path.suffix and (path.parts[0], path.suffix) in kinds:
            raise UserError(f"Nothing makes {word}{suggested(word, map(str, outputs))}.")


def _are_rules(before: Sequence[str]) -> bool:
    """Whether the next word belongs to an option that takes rules or settings."""
    last = next((word for word in reversed(before) if word.startswith("-")), "--")
    return last != "--" and last.startswith(RULE_OPTIONS)


def _meant(graph: Graph, word: str) -> str | None:
    """The advice for a word that names a scale, stage, table, figure, experiment, dataset or network."""
    if word == "paper":
        return "`snakemake all` makes everything of the paper"
    if word in stages():
        made = [job.first for job in graph.values() if job.stage.name == word]
        example = f", for example {made[0]}" if made else ""
        return f"it is a stage; name a file that it makes{example}"
    named = [job for job in graph.values() if _has_name(job, word)]
    shown = [job for job in named if job.stage.name in SHOWN] or named
    files = dict.fromkeys(str(job.first) for job in shown)
    return f"you may mean {' or '.join(files)}" if files else None


def _has_name(job: Job, word: str) -> bool:
    return word in (job.name, job.names.get("experiment"))
