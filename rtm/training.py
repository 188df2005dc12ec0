"""`rtm train`: check the devices, start as many processes as GPUs, lock the run, train, and leave the checkpoint."""

import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

from rtm import distributed
from rtm.config import Config, Experiment
from rtm.data.datasets import Images
from rtm.generator import draw
from rtm.layout import Layout
from rtm.lineage import Ledger, recorded
from rtm.methods import build_method
from rtm.pipeline import NETWORKS, jobs
from rtm.randomness import seed_of
from rtm.runs import Stopped, book_of, training
from rtm.train import STOPPED, Run, Selection, Setting, check_devices


def train_experiment(config: Config, layout: Layout, experiment: Experiment, seed: int) -> None:
    use_gpus = check_devices(experiment, layout.checkpoint(experiment.name, seed))
    processes = experiment.recipe.resources.gpus
    if processes > 1 and "RANK" not in os.environ:
        _launch(processes)
    device = distributed.start(use_gpus)
    try:
        _train(config, layout, experiment, seed, device)
    except Stopped as stopped:
        print(f"rtm: {stopped}", file=sys.stderr)
        sys.exit(STOPPED)
    finally:
        distributed.stop()


def _launch(processes: int) -> None:
    """Become torchrun with the same command line; its processes find RANK set."""
    runner = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", "-m", "rtm.cli"]
    os.execv(sys.executable, [sys.executable, *runner, *sys.argv[1:]])


def _train(config: Config, layout: Layout, experiment: Experiment, seed: int, device: torch.device) -> None:
    job = jobs(config)[f"train/{experiment.name}/seed{seed}"]
    setting = Setting(
        experiment, seed, Images(layout.images(experiment.dataset_name)), _weights(layout, experiment), device
    )
    if distributed.rank() != 0:  # the first process locks, saves and signs for all
        Run(build_method(setting), setting, layout.run(experiment.name, Ledger().fingerprint(job))).train()
        return
    with recorded(job) as recording:
        folder = layout.run(experiment.name, recording.fingerprint)
        gpus = experiment.recipe.resources.gpus
        with training(folder, experiment.name, seed, gpus):
            run = Run(build_method(setting), setting, folder, _selection(config, layout, experiment, device))
            run.train()
            described = _described(experiment, seed, recording.fingerprint, setting.images.sha256)
            run.export(layout.checkpoint(experiment.name, seed), layout.curve(experiment.name, seed), described)
        book = book_of(folder)
        assert book is not None
        recording.facts |= book.facts()


def _weights(layout: Layout, experiment: Experiment) -> Path | None:
    imle = experiment.recipe.imle
    return layout.weights(NETWORKS.get(imle.perceptual, imle.perceptual)) if imle else None


def _selection(config: Config, layout: Layout, experiment: Experiment, device: torch.device) -> Selection | None:
    """FID of the EMA weights in training (App. F), of as many samples as the protocol asks for."""
    gan = experiment.recipe.stylegan2
    if gan is None or gan.select == "last":
        return None
    from rtm.metrics.protocols import fid_of

    protocol, evaluation = config.params.protocols[gan.select_protocol], experiment.recipe.evaluation
    required = protocol.required(experiment.dataset_name)
    reference = layout.reference(experiment.dataset_name, gan.select_protocol)

    def score(generator: nn.Module) -> float:
        indices = torch.arange(required, device=device).split(evaluation.batch)
        drawn = [draw(generator, experiment, seed_of("selection"), index).cpu() for index in indices]
        return fid_of(torch.cat(drawn).numpy(), reference, protocol, layout)

    return Selection(gan.select_every, score)


def _described(experiment: Experiment, seed: int, fingerprint: str, data: str) -> dict[str, Any]:
    """What a weights file tells of itself."""
    return {
        "experiment": experiment.name,
        "seed": seed,
        "run": fingerprint,
        "data_sha256": data,
        "recipe": experiment.recipe.model_dump(mode="json"),
        "mapper": experiment.mapper.model_dump(mode="json"),
        "decoder": experiment.decoder and experiment.decoder.model_dump(mode="json"),
    }
