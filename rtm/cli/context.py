"""What every verb starts from: the parameters of a scale, and receipts for what it makes."""

import argparse
from contextlib import AbstractContextManager

from rtm.config import Config, Experiment, load
from rtm.core.errors import UserError
from rtm.lineage.receipts import Recording
from rtm.lineage.store import kept, served
from rtm.pipeline.graph import jobs

Arguments = argparse.Namespace


class Context:
    """The parameters of the chosen scale and where its files are."""

    def __init__(self, arguments: Arguments) -> None:
        self.config: Config = load(arguments.scale)
        self.layout = self.config.layout

    def experiment(self, name: str, seed: int | None = None) -> Experiment:
        experiment = self.config.experiment(name)
        if seed is not None and seed not in experiment.seeds:
            known = ", ".join(map(str, experiment.seeds))
            raise UserError(f"{name} has no seed {seed}; choose one of {known}, or add it to its seeds in params/.")
        return experiment

    def recorded(self, stage: str, name: str) -> AbstractContextManager[Recording]:
        return kept(jobs(self.config)[f"{stage}/{name}"])

    def served(self, stage: str, name: str) -> bool:
        """Whether the result came from the store; nothing is to be done then."""
        return served(jobs(self.config)[f"{stage}/{name}"])
