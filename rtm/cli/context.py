"""The start of every verb: the parameters of a scale, and receipts for its results."""

import argparse
from contextlib import AbstractContextManager

from rtm.config import Config, Experiment, load
from rtm.core.errors import UserError
from rtm.lineage.receipts import Recording
from rtm.lineage.store import kept, served
from rtm.pipeline.graph import jobs

Arguments = argparse.Namespace


class Context:
    """The parameters of the chosen scale and the paths of its files."""

    def __init__(self, arguments: Arguments) -> None:
        self.config: Config = load(arguments.scale)
        self.layout = self.config.layout

    def experiment(self, name: str, seed: int | None = None) -> Experiment:
        experiment = self.config.experiment(name)
        if seed is not None and seed not in experiment.seeds:
            known = ", ".join(map(str, experiment.seeds))
            raise UserError(f"{name} has no seed {seed}; choose one of {known}, or add the seed in params/.")
        return experiment

    def recorded(self, stage: str, name: str) -> AbstractContextManager[Recording]:
        return kept(jobs(self.config)[f"{stage}/{name}"])

    def served(self, stage: str, name: str) -> bool:
        """Whether the result came from the store; then there is nothing to do."""
        return served(jobs(self.config)[f"{stage}/{name}"])
