"""`rtm --completion SHELL`: a script with the verbs, their options, and the names of params/ as they are now."""

import argparse
from collections.abc import Iterator

from rtm.config import Config, load
from rtm.config.loading import trials
from rtm.core.errors import UserError
from rtm.stages.network import Network

SHELLS = ("bash", "zsh", "fish")
BASH_FILES = ("complete -o bashdefault -F", "complete -o bashdefault -o default -F")  # no name fits: files


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    try:
        import shtab
    except ImportError:
        raise UserError("Completion needs shtab; install it with `pip install shtab`.") from None
    names_of = _names()
    for verb, action in _actions(parser):
        if names := names_of.get(f"{verb} {action.dest}", names_of.get(action.dest)):
            action.choices = names  # only for completion, because each verb has its own message for unknown names
        elif action.dest in ("source", "held_out"):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    written: str = shtab.complete(parser, shell)
    return written.replace(*BASH_FILES)


def _actions(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.Action]]:
    """The arguments of all verbs."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            action.help = None  # shtab leaves out what --help does not list
            for verb, below in action.choices.items():
                yield from ((verb, each) for each in below._actions)


def _names() -> dict[str, list[str]]:
    """The values of arguments, by "argument" or "verb argument"; for all scales, because --scale may come later."""
    configs = [load(scale) for scale in (*load().params.scales, *trials())]
    params = configs[0].params
    datasets = list(params.datasets)
    experiments = _once(configs, "experiments")
    networks = [str(names["network"]) for names in Network().every(configs[0])]
    return {
        "scale": [each.scale_name for each in configs],
        "export": [trial.partition("/")[2] for trial in trials()],
        "checkpoint": [_at(config.scale_name, name) for config in configs for name in config.experiments],
        "experiment": experiments,
        "subject": [*experiments, *datasets],
        "other": datasets,
        "protocol": list(params.protocols),
        "names": [*datasets, *networks],
        "table name": _once(configs, "tables"),
        "figure name": _once(configs, "figures"),
        "plan name": [*experiments, *params.planned],
    }


def _at(scale: str, name: str) -> str:
    return name if scale == "paper" else f"{scale}/{name}"


def _once(configs: list[Config], kind: str) -> list[str]:
    return list(dict.fromkeys(name for config in configs for name in getattr(config, kind)))
