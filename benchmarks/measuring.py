"""How the benchmarks measure: one thread, CPU seconds (so that other work on the machine matters little), medians.

On a GPU they measure wall time between synchronisations. `alone` runs a measurement in a separate process, because the
time and memory of a function depend on earlier allocations of the process.
"""

import multiprocessing
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from rtm.core.files import write_json

T = TypeVar("T")
Groups = dict[str, dict[str, float]]  # name of the measurement with its unit -> variant -> value
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def now() -> float:
    if DEVICE == "cuda":
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()


def once(function: Callable[[], object]) -> float:
    began = now()
    function()
    return now() - began


def in_turn(variants: Mapping[str, Callable[[], object]], repeats: int = 15, warm_up: bool = True) -> dict[str, float]:
    """Median seconds of each variant. The variants take turns, so that other work on the machine slows all equally."""
    torch.set_num_threads(1)
    times: dict[str, list[float]] = {name: [] for name in variants}
    for turn in range(-1 if warm_up else 0, repeats):
        for name, function in variants.items():
            began = now()
            function()
            if turn >= 0:
                times[name].append(now() - began)
    return {name: statistics.median(values) for name, values in times.items()}


def added_megabytes(function: Callable[[], object]) -> float:
    """The peak memory during the function, minus the memory of the process (or the GPU) before it."""
    if DEVICE == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        function()
        return (torch.cuda.max_memory_allocated() - before) / 2**20
    Path("/proc/self/clear_refs").write_text("5", "utf-8")  # forget the peak so far
    held = peak_megabytes()
    function()
    return peak_megabytes() - held


def peak_megabytes() -> float:
    """The peak memory of the process."""
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 2**10


def alone(function: Callable[..., T], *arguments: object) -> T:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def inception_like(count: int, width: int, seed: int) -> NDArray[np.float32]:
    """Features similar to Inception's: not negative, with some directions much wider than others. They are made in
    pieces, to keep memory low."""
    rng = np.random.default_rng(seed)
    shared = np.random.default_rng(0)
    directions = shared.standard_normal((64, width), np.float32)
    made = np.empty((count, width), np.float32)
    for piece in np.array_split(made, max(1, count // 500)):
        wide = rng.standard_normal((len(piece), 64), np.float32) @ directions
        np.maximum(wide + rng.standard_normal(piece.shape, np.float32), 0, out=piece)
    return made


def random_images(folder: Path, count: int, side: int, classes: int = 0) -> Path:
    """A prepared dataset of noise."""
    rng = np.random.default_rng(0)
    images = folder / "images.npy"
    np.save(images, rng.integers(0, 256, (count, side, side, 3), np.uint8))
    if classes:
        np.save(folder / "labels.npy", rng.integers(0, classes, count))
    write_json(folder / "meta.json", {"sha256": ""})
    return images


def machine() -> dict[str, str]:
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    processor = torch.cuda.get_device_name() if DEVICE == "cuda" else f"one core of {len(names)} x {names[0]}"
    return {"processor": processor, "torch": torch.__version__, "python": platform.python_version()}


def show(groups: Groups) -> None:
    for group, values in groups.items():
        print(group)
        for name, value in values.items():
            print(f"  {name:40} {value:.4g}")
