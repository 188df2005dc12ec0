"""TensorBoard and Weights & Biases show the rows of log.jsonl, each step once, also after several kills."""

import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from support import smoke_workspace

from rtm.core.errors import UserError
from rtm.training import loggers
from rtm.training.loop import Run

IMLE = "shells_imle_rtm"


class Kept:
    """A logger that keeps its rows."""

    opened: list["Kept"]

    def __init__(self, folder: Path, name: str) -> None:
        self.rows: list[tuple[int, dict[str, float], str | None]] = []
        self.closed = False
        self.opened.append(self)

    def write(self, step: int, numbers: Mapping[str, float], grid: Path | None) -> None:
        self.rows.append((step, dict(numbers), grid.name if grid else None))

    def close(self) -> None:
        self.closed = True


def run(folder: Path, *names: str) -> Run:
    chosen = smoke_workspace.experiment(IMLE, epochs=3, save_every=2, grid_every=4, loggers=names)
    return smoke_workspace.run(folder, chosen)


def logged(folder: Path) -> dict[int, dict[str, float]]:
    rows = [json.loads(line) for line in (folder / "run/log.jsonl").read_text("utf-8").splitlines()]
    return {row.pop("step"): row for row in rows}


def test_a_resumed_run_shows_each_step_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Killed after step 7 with a save at step 6; the logger is switched on after that."""
    monkeypatch.setattr(Kept, "opened", [], raising=False)
    monkeypatch.setitem(loggers.KINDS, "tensorboard", Kept)
    monkeypatch.setattr("rtm.training.loop.LOG_EVERY", 1)
    first = run(tmp_path)
    step = first.method.step

    def dies(number: int) -> Any:
        if number == 7:
            raise KeyboardInterrupt
        return step(number)

    monkeypatch.setattr(first.method, "step", dies)
    with pytest.raises(KeyboardInterrupt):
        first.train()
    assert not Kept.opened
    second = run(tmp_path, "tensorboard")
    assert second.done == 6
    second.train()
    (shown,) = Kept.opened
    grids = {at: grid for at, _, grid in shown.rows if grid}
    rows = {at: numbers for at, numbers, _ in shown.rows if numbers}
    assert rows == logged(tmp_path)
    assert shown.closed
    assert [at for at, numbers, _ in shown.rows if numbers] == list(range(1, second.total + 1))
    assert grids == {at: f"grid_{at:09d}.png" for at in range(4, second.total + 1, 4)}
    assert f"samples of step 8 in {tmp_path}/run/grid_000000008.png" in capsys.readouterr().err


def test_a_missing_package_is_named_before_training() -> None:
    loggers.check_installed(("torch",))
    with pytest.raises(UserError, match="names no_such_package: install it with `pip install no_such_package`"):
        loggers.check_installed(("no_such_package",))


@pytest.mark.slow(seconds=6)
def test_tensorboard_reads_what_was_logged(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for _ in range(2):  # the second time, the run is finished already
        run(tmp_path, "tensorboard").train()
    shown = EventAccumulator(str(tmp_path / "run/tensorboard")).Reload()
    rows = logged(tmp_path)
    assert set(shown.Tags()["scalars"]) == {key for row in rows.values() for key in row}
    assert {each.step: each.value for each in shown.Scalars("loss")} == pytest.approx(
        {at: row["loss"] for at, row in rows.items()}
    )
    assert len(shown.Scalars("loss")) == len(rows)
    assert [each.step for each in shown.Images("samples")] == sorted(
        int(path.stem.removeprefix("grid_")) for path in (tmp_path / "run").glob("grid_*.png")
    )


def records(file: bytes, block: int = 1 << 15) -> Iterator[bytes]:
    """Records of a log in LevelDB's format: 7 bytes of header, then blocks of pieces with checksum, length and kind."""
    at = 7
    whole = b""
    while at + 7 <= len(file):
        if block - at % block < 7:
            at += block - at % block
        size, kind = struct.unpack_from("<HB", file, at + 4)
        whole = whole + file[at + 7 : at + 7 + size]
        at = at + 7 + size
        if kind in (1, 4):  # a complete record, or its last piece
            yield whole
            whole = b""


@pytest.mark.slow(seconds=8)
def test_weights_and_biases_stays_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")
    from wandb.proto.wandb_internal_pb2 import Record

    monkeypatch.delenv("WANDB_MODE", raising=False)
    run(tmp_path, "wandb").train()
    wandb.teardown()
    (offline,) = (tmp_path / "run/wandb").glob("offline-run-*-run")
    (log,) = offline.glob("*.wandb")
    shown = {}
    for data in records(log.read_bytes()):
        record = Record.FromString(data)
        if record.HasField("history"):
            items = {item.key or "/".join(item.nested_key): item.value_json for item in record.history.item}
            shown[int(items["_step"])] = items
    assert {at: float(items["loss"]) for at, items in shown.items() if "loss" in items} == pytest.approx(
        {at: row["loss"] for at, row in logged(tmp_path).items()}
    )
    assert len(list(offline.rglob("samples_*.png"))) == len(list((tmp_path / "run").glob("grid_*.png"))) > 0
