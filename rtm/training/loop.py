"""The one training loop: steps, EMA, precision, several processes, saves, stops and exact resumption.

A method (RS-IMLE, StyleGAN2) defines a step. All randomness is a function of (seed, step), so the state has only the
weights, the optimisers and a few numbers of the method. A run can be killed at any moment. When it resumes, it gives
the same results: bit for bit on a CPU, and on a GPU if the kernels are deterministic.
"""

import csv
import json
import math
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import torch
from PIL import Image
from safetensors.torch import save
from torch import Tensor, nn

from rtm.core import distributed
from rtm.core.errors import UserError
from rtm.core.files import append, atomic, line
from rtm.core.progress import progress
from rtm.core.randomness import seed_of
from rtm.core.readers import UNREADABLE
from rtm.core.sealed import keep_as, sealed, unsealed
from rtm.methods.base import Method, Setting
from rtm.models.drawing import draw
from rtm.models.layers import relative_change
from rtm.training.folder import Stopped, listen, log_rows, saved_states
from rtm.training.loggers import loggers

STOPPED = 75  # exit code of a run that saved its state before its walltime and must be started again
KIND = "state of a training"
LOG_EVERY = 20  # steps between lines of the log, and between checks of the stop signal
CURVE_ROWS = 500


@dataclass(frozen=True)
class Watch:
    """Measure the EMA weights every `every` steps, for the curve. With `selects`, keep the weights with the lowest
    FID."""

    every: int
    measure: Callable[[nn.Module], dict[str, float]]  # its result must have "fid"
    selects: bool


class Run:
    """A training in its folder: state.pt, state.prev.pt, log.jsonl, grid_*.png.

    The saves hold the rows of the log. So log.jsonl is only for those who watch: damage to it changes no result.
    """

    def __init__(
        self,
        method: Method,
        setting: Setting,
        folder: Path,
        watch: Watch | None = None,
        check_owner: Callable[[], None] = lambda: None,  # raises if another process took the folder over
    ) -> None:
        self.method = method
        self.setting = setting
        self.folder = folder
        self.watch = watch
        self.check_owner = check_owner
        self.best: dict[str, Any] = {"score": math.inf, "step": 0, "weights": {}}
        folder.mkdir(parents=True, exist_ok=True)  # the first process creates it
        self.training = setting.experiment.recipe.training
        self.total = setting.experiment.steps()
        self.name = f"train {setting.experiment.name} seed {setting.seed}"
        self.ema = deepcopy(method.generator).eval().requires_grad_(False)
        self.done = 0
        self.seconds = 0.0
        self.rows: list[dict[str, float]] = []  # of the log
        self.log = folder / "log.jsonl"
        self.stop_asked = False
        self.state_file, self.previous_state_file = saved_states(folder)
        self.state_is_sound = False  # an unreadable state must not replace the previous state
        self.header = {"kind": KIND, "run": folder.name, "seed": setting.seed}  # of its saves
        distributed.wait()  # until the first process has locked the folder
        if self.state_file.exists() or self.previous_state_file.exists():
            self._load()
        self._check_agreement()
        if distributed.rank() == 0:
            self._restore_log()

    def _check_agreement(self) -> None:
        """Raise an error if the processes are at different steps, because they would wait for each other for ever."""
        mine = torch.tensor([self.done], device=self.setting.device)
        steps = [int(step) for step in distributed.gather(mine)]
        if len(set(steps)) > 1:
            raise UserError(
                f"The processes of this training read different saves of {self.folder} (steps {steps}); start it again."
            )

    def train(self) -> None:
        """Train to the end, or raise Stopped after a stop signal."""
        listen(self._ask_to_stop)
        leads = distributed.rank() == 0
        logging = loggers(self.training.loggers if leads else (), self.folder, self.name, self.done)
        with progress(self.name, self.total) if leads else _silent() as report, logging as show:
            began = time.monotonic() - self.seconds
            while self.done < self.total:
                is_logged = (self.done + 1) % LOG_EVERY == 0 or self.done + 1 in (1, self.total)
                numbers = self._step(is_logged)
                measured = self._watched() if leads else {}
                self.seconds = time.monotonic() - began
                if is_logged or measured:
                    row = self._row(numbers, measured)
                    if leads:
                        self.rows.append(row)
                        append(self.log, row)
                        show(self.done, row)
                        report(self.done, loss=row["loss"])
                if leads and self.done % self.training.grid_every == 0:
                    grid = self._grid()
                    print(f"{self.name}: samples of step {self.done:,} in {grid}", file=sys.stderr)
                    show(self.done, {}, grid)
                stops = is_logged and distributed.any_of(self.stop_asked, self.setting.device)
                if stops or self.done % self.training.save_every == 0 or self.done == self.total:
                    self._checked(numbers)
                    self._save()
                if stops and self.done < self.total:
                    place = f"step {self.done} of {self.total}"
                    raise Stopped(f"{self.name} saved itself at {place}; the same command resumes.")

    def _step(self, is_logged: bool) -> dict[str, Tensor | float]:
        """One step of the method and of the EMA; the numbers for the log."""
        before = self.method.styles() if is_logged else None
        numbers = self.method.step(self.done)
        if before is not None:
            numbers["w_change"] = relative_change(before, self.method.styles(), 1).median()
        self.done += 1
        self._update_ema()
        return numbers

    def _row(self, numbers: dict[str, Tensor | float], measured: dict[str, float]) -> dict[str, float]:
        """A row of the log."""
        return {"step": self.done, **self._pace(), **self._checked(numbers), **measured}

    def _pace(self) -> dict[str, float]:
        """Time so far, speed and memory."""
        peak = torch.cuda.max_memory_allocated() if self.setting.device.type == "cuda" else resident_bytes()
        images = self.done * self.training.batch
        return {
            "seconds": round(self.seconds, 3),
            "images_per_second": round(images / self.seconds, 2),
            "memory_gb": round(peak / 1e9, 3),
        }

    def export(self, checkpoint: Path, curve: Path, described: dict[str, Any]) -> None:
        """Write the EMA weights in float32 with their description, and the thinned log."""
        selects = self.watch is not None and self.watch.selects
        chosen = self.best["weights"] if selects else self.ema.state_dict()
        if selects:
            described = {**described, "selected_step": self.best["step"], "selection_score": self.best["score"]}
        self._refuse_infinite(chosen)
        weights = {name: tensor.detach().float().cpu().contiguous() for name, tensor in chosen.items()}
        with atomic(curve, "w") as file:
            _write_curve(file, self.rows)
        with atomic(checkpoint) as file:
            file.write(save(weights, metadata={"rtm": json.dumps(described, sort_keys=True)}))

    def _ask_to_stop(self) -> None:
        self.stop_asked = True

    def _update_ema(self) -> None:
        decay = self.method.ema_decay(self.done)
        with torch.no_grad():
            ours: list[Tensor] = list(self.ema.parameters())
            theirs: list[Tensor] = list(self.method.generator.parameters())
            torch._foreach_lerp_(ours, theirs, 1 - decay)
            for own, other in zip(self.ema.buffers(), self.method.generator.buffers(), strict=True):
                own.copy_(other)

    def _watched(self) -> dict[str, float]:
        """The measurements of this step, if one is due; the best weights are kept."""
        if self.watch is None or (self.done % self.watch.every and self.done != self.total):
            return {}
        metrics = self.watch.measure(self.ema)
        measured = {name: round(value, 6) for name, value in metrics.items()}
        if self.watch.selects and (measured["fid"] < self.best["score"] or not self.best["weights"]):
            weights = {name: tensor.clone() for name, tensor in self.ema.state_dict().items()}
            self.best = {"score": measured["fid"], "step": self.done, "weights": weights}
        return measured

    def _checked(self, numbers: dict[str, Tensor | float]) -> dict[str, float]:
        shown = {name: round(float(value), 6) for name, value in numbers.items()}
        if not all(math.isfinite(value) for value in shown.values()):
            raise UserError(
                f"{self.setting.experiment.name} diverged at step {self.done} ({shown}); the last save is "
                "kept. Lower training.lr, or train in float32."
            )
        return shown

    def _save(self) -> None:
        if distributed.rank() != 0:
            return
        self.check_owner()
        self.setting.images.refuse_changed()
        self._refuse_infinite(self.ema.state_dict())
        state = {
            "done": self.done,
            "seconds": self.seconds,
            "log": self.rows,
            "networks": self.method.networks.state_dict(),
            "optimizers": {name: optimizer.state_dict() for name, optimizer in self.method.optimizers.items()},
            "ema": self.ema.state_dict(),
            "best": self.best,
            "extra": self.method.extra(),
        }
        with sealed(self.state_file, self.header) as file:
            torch.save(state, file)
            if self.state_is_sound and self.state_file.exists():
                keep_as(self.state_file, self.previous_state_file)
        self.state_is_sound = True

    def _load(self) -> None:
        """Resume from the last save that every process can use, or from the one before it."""
        problems: list[str] = []
        for file in (self.state_file, self.previous_state_file):
            problem = self._restored(file)
            if not distributed.any_of(bool(problem), self.setting.device):
                self.state_is_sound = file == self.state_file
                if problems and distributed.rank() == 0:
                    print(f"{problems[0]} Resuming at step {self.done} from {file}.", file=sys.stderr)
                return
            problems.append(problem or f"{file} cannot be used by another process.")
        raise UserError(f"{' '.join(problems)} Restore one from a backup, or delete both to train from the beginning.")

    def _restored(self, file: Path) -> str:
        """Restore a save. Return "", or a sentence with the reason why it cannot be used."""
        try:
            with unsealed(file) as (header, payload):
                if header != self.header:
                    return f"{file} is of another kind, run or seed ({header})."
                self._restore(torch.load(payload, map_location=self.setting.device, weights_only=True))
        except torch.OutOfMemoryError:
            raise
        except FileNotFoundError:
            return f"{file} is not there."
        except UserError as error:
            return str(error)
        except UNREADABLE as error:
            return f"{file} cannot be read ({type(error).__name__})."
        return ""

    def _restore(self, state: dict[str, Any]) -> None:
        if not (isinstance(state["done"], int) and 0 <= state["done"] <= self.total):
            raise UserError(f"{self.folder} has a save at step {state['done']} of {self.total}.")
        steps = [row["step"] for row in state["log"]]
        if steps != sorted(set(steps)) or not all(0 < step <= state["done"] for step in steps):
            raise UserError(f"{self.folder} has a save whose log is not in order.")
        self._refuse_infinite(state["ema"])
        self.method.networks.load_state_dict(state["networks"])
        for name, optimizer in self.method.optimizers.items():
            optimizer.load_state_dict(state["optimizers"][name])
        self.ema.load_state_dict(state["ema"])
        self.method.load_extra(state["extra"])
        self.done = state["done"]
        self.seconds = state["seconds"]
        self.best = state["best"]
        self.rows = state["log"]

    def _restore_log(self) -> None:
        """Write the log again if its rows up to the save are other ones. Rows of later steps stay, and are repeated; a
        kill may have cut the last one."""
        written = {row["step"]: row for row in log_rows(self.log) if row["step"] <= self.done}
        content = self.log.read_bytes() if self.log.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        if [written[step] for step in sorted(written)] != self.rows:
            print(f"{self.log} is damaged; it is written again from the save of step {self.done}.", file=sys.stderr)
            whole = "".join(map(line, self.rows)).encode()
        if whole != content:
            with atomic(self.log) as file:
                file.write(whole)

    def _refuse_infinite(self, weights: dict[str, Tensor]) -> None:
        """Refuse weights that are not finite: a training that diverged is not saved, resumed or exported."""
        if not all(bool(tensor.isfinite().all()) for tensor in weights.values()):
            raise UserError(
                f"{self.folder} has averaged weights that are not finite; the last save is kept. "
                "Lower training.lr, or train in float32."
            )

    def _grid(self, rows: int = 8) -> Path:
        experiment = self.setting.experiment
        index = torch.arange(rows * rows, device=self.setting.device)
        pixels = draw(self.ema, experiment.architecture, seed_of("grid"), index).cpu()
        side = rows * experiment.dataset.resolution
        cells = pixels.view(rows, rows, *pixels.shape[1:])
        sheet = cells.permute(0, 2, 1, 3, 4).reshape(side, side, 3)
        path = self.folder / f"grid_{self.done:09d}.png"
        with atomic(path) as file:
            Image.fromarray(sheet.numpy()).save(file, format="PNG")
        return path


def resident_bytes() -> int:
    """The peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@contextmanager
def _silent() -> Iterator[Any]:
    yield lambda *_, **__: None


def _write_curve(file: IO[str], rows: list[dict[str, float]]) -> None:
    """Write the log as CSV with about CURVE_ROWS rows."""
    every = max(1, math.ceil(len(rows) / CURVE_ROWS))
    thinned = [row for place, row in enumerate(rows) if place % every == 0 or "fid" in row or row is rows[-1]]
    writer = csv.DictWriter(file, list(dict.fromkeys(key for row in thinned for key in row)))
    writer.writeheader()
    writer.writerows(thinned)
