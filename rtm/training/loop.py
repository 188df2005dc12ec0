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
from collections.abc import Callable, Iterator, Sequence
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
from rtm.core.files import UNREADABLE, append, atomic, keep_as, sealed, unsealed
from rtm.core.layout import saved_states
from rtm.core.progress import progress
from rtm.core.randomness import seed_of
from rtm.methods.base import Method, Setting
from rtm.models.drawing import draw
from rtm.models.layers import relative_change
from rtm.pipeline.loggers import loggers
from rtm.pipeline.runs import Stopped, listen, log_rows

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
    """A training in its folder: state.pt, state.prev.pt, log.jsonl, grid_*.png."""

    def __init__(
        self,
        method: Method,
        setting: Setting,
        folder: Path,
        watch: Watch | None = None,
        check_owner: Callable[[], None] = lambda: None,  # raises if another process took the folder over
        names: Sequence[str] = ("",),  # fingerprints: the present one, and those from before refactorings
    ) -> None:
        self.method, self.setting, self.folder, self.watch = method, setting, folder, watch
        self.check_owner, self.names = check_owner, names
        self.best: dict[str, Any] = {"score": math.inf, "step": 0, "weights": {}}
        folder.mkdir(parents=True, exist_ok=True)  # the first process creates it
        self.training = setting.experiment.recipe.training
        self.total = setting.experiment.steps()
        self.ema = deepcopy(method.generator).eval().requires_grad_(False)
        self.done, self.seconds = 0, 0.0
        self.stop_asked = False
        self.state_file, self.previous_state_file = saved_states(folder)
        self.state_is_sound = False  # an unreadable state must not replace the previous state
        distributed.any_of(False, setting.device)  # wait until the first process has locked the folder
        if self.state_file.exists() or self.previous_state_file.exists():
            self._load()
        self._check_agreement()

    def _check_agreement(self) -> None:
        """Raise an error if the processes are at different steps, because they would wait for each other for ever."""
        steps = [int(step) for step in distributed.gather(torch.tensor([self.done], device=self.setting.device))]
        if len(set(steps)) > 1:
            raise UserError(
                f"The processes of this training read different saves of {self.folder} (steps {steps}); start it again."
            )

    def train(self) -> None:
        """Train to the end, or raise Stopped after a stop signal."""
        listen(self._ask_to_stop)
        name = f"train {self.setting.experiment.name} seed {self.setting.seed}"
        leads = distributed.rank() == 0
        logging = loggers(self.training.loggers if leads else (), self.folder, name, self.done)
        with progress(name, self.total) if leads else _silent() as report, logging as show:
            began = time.monotonic() - self.seconds
            while self.done < self.total:
                looks = (self.done + 1) % LOG_EVERY == 0 or self.done + 1 in (1, self.total)
                before = self.method.styles() if looks else None
                numbers = self.method.step(self.done)
                if before is not None:
                    numbers["w_change"] = relative_change(before, self.method.styles(), 1).median()
                self.done += 1
                self._update_ema()
                measured = self._watched() if leads else {}
                if looks or measured:
                    self.seconds = time.monotonic() - began
                    shown = self._checked(numbers)
                    if leads:
                        row = {"step": self.done, **self._pace(), **shown, **measured}
                        append(self.folder / "log.jsonl", row)
                        show(self.done, row)
                        report(self.done, loss=shown["loss"])
                if self.done % self.training.grid_every == 0 and leads:
                    grid = self._grid()
                    print(f"{name}: samples of step {self.done:,} in {grid}", file=sys.stderr)
                    show(self.done, {}, grid)
                asked = looks and distributed.any_of(self.stop_asked, self.setting.device)
                if asked or self.done % self.training.save_every == 0 or self.done == self.total:
                    self._checked(numbers)
                    self._save()
                if asked and self.done < self.total:
                    raise Stopped(f"{name} saved itself at step {self.done} of {self.total}; the same command resumes.")

    def _pace(self) -> dict[str, float]:
        """Time so far, speed and memory."""
        peak = torch.cuda.max_memory_allocated() if self.setting.device.type == "cuda" else resident_bytes()
        return {
            "seconds": round(self.seconds, 3),
            "images_per_second": round(self.done * self.training.batch / self.seconds, 2),
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
            _write_curve(file, self.folder / "log.jsonl")
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
        measured = {name: round(value, 6) for name, value in self.watch.measure(self.ema).items()}
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
            "networks": self.method.networks.state_dict(),
            "optimizers": {name: optimizer.state_dict() for name, optimizer in self.method.optimizers.items()},
            "ema": self.ema.state_dict(),
            "best": self.best,
            "extra": self.method.extra(),
        }
        with sealed(self.state_file, {"kind": KIND, "fingerprint": self.names[0], "seed": self.setting.seed}) as file:
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
                if header != {"kind": KIND, "fingerprint": header["fingerprint"], "seed": self.setting.seed}:
                    return f"{file} is of another kind or seed ({header})."
                if header["fingerprint"] not in self.names:
                    return f"{file} is of another run ({header['fingerprint'][:16]})."
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
        self._refuse_infinite(state["ema"])
        self.method.networks.load_state_dict(state["networks"])
        for name, optimizer in self.method.optimizers.items():
            optimizer.load_state_dict(state["optimizers"][name])
        self.ema.load_state_dict(state["ema"])
        self.method.load_extra(state["extra"])
        self.done, self.seconds, self.best = state["done"], state["seconds"], state["best"]

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
        sheet = pixels.view(rows, rows, *pixels.shape[1:]).permute(0, 2, 1, 3, 4).reshape(side, side, 3)
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


def _write_curve(file: IO[str], log: Path) -> None:
    """Write the log as CSV with about CURVE_ROWS rows. If a resumed run repeated a step, only the last row counts."""
    lines = {row["step"]: row for row in log_rows(log)}
    rows = [lines[step] for step in sorted(lines)]
    every = max(1, -(-len(rows) // CURVE_ROWS))
    thinned = [row for place, row in enumerate(rows) if place % every == 0 or "fid" in row or row is rows[-1]]
    writer = csv.DictWriter(file, list(dict.fromkeys(key for row in thinned for key in row)))
    writer.writeheader()
    writer.writerows(thinned)
