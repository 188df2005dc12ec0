"""Send the rows of log.jsonl and the sample grids to TensorBoard and Weights & Biases.

A logger first repeats everything that its run wrote before. So a resumed run shows every step once, even if the user
added the logger later. Weights & Biases writes to disk, for `wandb sync`, unless WANDB_MODE=online.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from PIL import Image

from rtm.core.errors import UserError
from rtm.core.readers import reading
from rtm.training.folder import log_rows


class Logger(Protocol):
    def write(self, step: int, numbers: Mapping[str, float], grid: Path | None) -> None: ...

    def close(self) -> None: ...


class TensorBoard:
    def __init__(self, folder: Path, name: str) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder / "tensorboard"), purge_step=0)  # viewers drop the old steps
        self.close = self.writer.close

    def write(self, step: int, numbers: Mapping[str, float], grid: Path | None) -> None:
        for key, number in numbers.items():
            self.writer.add_scalar(key, number, step)
        if grid:
            with reading(grid, "delete it"), Image.open(grid, formats=["PNG"]) as picture:
                self.writer.add_image("samples", np.asarray(picture), step, dataformats="HWC")


class WeightsAndBiases:
    def __init__(self, folder: Path, name: str) -> None:
        import wandb

        mode: Any = os.environ.get("WANDB_MODE", "offline")
        quiet = wandb.Settings(console="off", silent=True, disable_git=True, disable_code=True, x_disable_stats=True)
        self.run = wandb.init(
            project="rtm",
            name=name,
            id=folder.name,
            dir=str(folder),
            resume="allow",
            mode=mode,
            settings=quiet,
        )
        self.image = wandb.Image
        self.close = self.run.finish

    def write(self, step: int, numbers: Mapping[str, float], grid: Path | None) -> None:
        if step >= self.run.step:  # in online mode, the server already has earlier steps
            pictures = {"samples": self.image(str(grid))} if grid else {}
            self.run.log({**numbers, **pictures}, step=step)


KINDS: dict[str, type[TensorBoard] | type[WeightsAndBiases]] = {
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
}


def check_installed(names: Sequence[str]) -> None:
    for name in names:
        if find_spec(name) is None:
            raise UserError(f"training.loggers names {name}: install it with `pip install {name}`, or leave it out.")


@contextmanager
def loggers(names: Sequence[str], folder: Path, title: str, done: int) -> Iterator[Callable[..., None]]:
    """Yield a function to call with (step, row) and (step, {}, grid). The first `done` steps are logged before."""
    for name in names:
        shutil.rmtree(folder / name, ignore_errors=True)
    opened: list[Logger] = [KINDS[name](folder, title) for name in names]

    def show(step: int, row: Mapping[str, float], grid: Path | None = None) -> None:
        numbers = {key: number for key, number in row.items() if key != "step"}
        for logger in opened:
            logger.write(step, numbers, grid)

    try:
        if opened:
            _repeat(folder, done, show)
        yield show
    finally:
        for logger in opened:
            logger.close()


def _repeat(folder: Path, done: int, show: Callable[..., None]) -> None:
    """Show everything that a run wrote in its first steps. If a step was repeated, its last row counts."""
    rows = {int(row["step"]): row for row in log_rows(folder / "log.jsonl")}
    grids = {int(path.stem.removeprefix("grid_")): path for path in folder.glob("grid_*.png")}
    for step in sorted(rows | grids):
        if step <= done:
            show(step, rows.get(step, {}), grids.get(step))
