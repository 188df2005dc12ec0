"""The commands that make missing results."""

from collections.abc import Iterable
from pathlib import Path

from rtm.config import Config
from rtm.config.reports import Figure
from rtm.core.files import make_command
from rtm.core.layout import Layout


def command(config: Config, target: Path, experiments: Iterable[str]) -> str:
    """The command that makes a target, on a cluster if an experiment needs GPUs; unknown names are ignored."""
    known = (config.experiments[name] for name in experiments if name in config.experiments)
    return make_command(target, gpus=any(experiment.recipe.resources.gpus for experiment in known))


def drawing(config: Config, layout: Layout, name: str, figure: Figure) -> str:
    table = config.params.tables[figure.table].experiments() if figure.table else []
    return command(config, layout.figure(name), [*figure.experiments, *table])
