"""The start of every verb: the parameters of a scale, and receipts for its results."""

import argparse
from collections.abc import Sequence
from contextlib import AbstractContextManager

from rtm.config import Config, Experiment, load
from rtm.config.variants import JOINT, Variant
from rtm.core.errors import UserError
from rtm.lineage.recording import Recording
from rtm.lineage.store import kept, served
from rtm.pipeline.graph import jobs

Arguments = argparse.Namespace


class Context:
    """The parameters of the chosen scale and the paths of its files."""

    def __init__(self, arguments: Arguments) -> None:
        self.config: Config = load(arguments.scale)
        self.layout = self.config.layout

    def experiment(self, name: str, seed: int | None = None, changes: Sequence[str] = ()) -> Experiment:
        """An experiment of the scale. If `name` or `changes` mean a variant, switch to the variant and its files."""
        if changes or JOINT in name:
            variant = Variant.of(name, changes)
            self.config, name = load(self.config.scale_name, variant=variant), variant.name
            self.layout = self.config.layout
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
