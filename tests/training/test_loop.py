"""The loop: recorded first losses, exact resumption after a kill, the same result from two processes."""

import csv
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from support import smoke_workspace
from support.checkpoints import metadata_of
from support.forked import Forks, forking
from torch import Tensor

from rtm.core import distributed
from rtm.core.errors import UserError
from rtm.core.files import append
from rtm.core.readers import checkpoint_metadata
from rtm.core.sealed import sealed, unsealed
from rtm.methods.registry import build_method
from rtm.models.checkpoint import load_generator
from rtm.models.drawing import draw
from rtm.training.folder import Stopped
from rtm.training.loop import Run, Watch

IMLE = "shells_imle_rtm"


def losses(folder: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (folder / "log.jsonl").read_text("utf-8").splitlines()]


def weights(run: Run) -> dict[str, Tensor]:
    return run.ema.state_dict()


def saved(path: Path) -> dict[str, Any]:
    with unsealed(path) as (_, payload):
        return dict(torch.load(payload, weights_only=True))


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize(
    ("name", "first", "last"), [("shells_imle_rtm", 2.035602, 2.168694), ("shells_imle_mlp", 2.256735, 2.284877)]
)
def test_the_first_losses_are_pinned(tmp_path: Path, name: str, first: float, last: float) -> None:
    smoke_workspace.run(tmp_path, smoke_workspace.experiment(name)).train()
    assert [losses(tmp_path / "run")[0], losses(tmp_path / "run")[-1]] == pytest.approx([first, last], rel=1e-3)


@pytest.mark.slow(seconds=4)
def test_training_reduces_the_loss(tmp_path: Path) -> None:
    smoke_workspace.run(tmp_path, smoke_workspace.experiment(IMLE, epochs=20, lr=5e-3, warmup=0)).train()
    found = losses(tmp_path / "run")
    assert found[-1] < 0.7 * found[0]


def test_a_finished_run_is_left_alone(tmp_path: Path) -> None:
    chosen = smoke_workspace.experiment(IMLE)
    finished = smoke_workspace.run(tmp_path, chosen)
    finished.train()
    log = (tmp_path / "run/log.jsonl").read_text("utf-8")
    again = smoke_workspace.run(tmp_path, chosen)
    assert again.done == chosen.steps()
    again.train()
    assert (tmp_path / "run/log.jsonl").read_text("utf-8") == log
    assert same(weights(finished), weights(again))


STOPPED: dict[str, Any] = {"epochs": 3, "save_every": 1000}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    folder = tmp_path_factory.mktemp("undisturbed")
    whole = smoke_workspace.run(folder, smoke_workspace.experiment(IMLE, **STOPPED))
    whole.train()
    return folder / "run", whole


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGURG, signal.SIGINT, signal.SIGHUP])
def test_a_stop_saves_and_the_same_command_resumes_exactly(
    undisturbed: tuple[Path, Run],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    number: signal.Signals,
) -> None:
    before = signal.signal(number, signal.SIG_DFL)  # in the background some signals are ignored
    request.addfinalizer(lambda: signal.signal(number, before))
    chosen, (folder, whole) = smoke_workspace.experiment(IMLE, **STOPPED), undisturbed
    stopped = smoke_workspace.run(tmp_path, chosen, "stopped")
    step = stopped.method.step

    def interrupted(at: int) -> dict[str, Tensor | float]:
        os.kill(os.getpid(), number)
        return step(at)

    monkeypatch.setattr(stopped.method, "step", interrupted)
    with pytest.raises(Stopped, match=r"saved itself at step 1 of .*; the same command resumes"):
        stopped.train()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler  # a second Ctrl-C ends the run at once
    assert 0 < stopped.done < chosen.steps()
    resumed = smoke_workspace.run(tmp_path, chosen, "stopped")
    assert resumed.done == stopped.done
    resumed.train()
    assert same(weights(whole), weights(resumed))
    assert losses(folder)[-1] == losses(tmp_path / "stopped")[-1]


KILLED = """
import json, sys
from support import smoke_workspace
from pathlib import Path
folder, name, length = sys.argv[1:]
experiment = smoke_workspace.experiment(name, save_every=3, **json.loads(length))
smoke_workspace.run(Path(folder), experiment, "killed").train()
"""


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with forking() as started:
        yield started


def kill_after_a_save(forks: Forks, folder: Path, *arguments: str) -> None:
    state = folder / "killed/state.pt"
    before = state.stat().st_mtime_ns if state.exists() else 0
    process = forks.start(KILLED, str(folder), *arguments)
    while not (state.exists() and state.stat().st_mtime_ns > before):
        assert process.is_alive(), "it ended before it could be killed"
        time.sleep(0.005)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL


@pytest.mark.slow(seconds=12)
@pytest.mark.parametrize(
    ("name", "length"), [(IMLE, {"epochs": 20}), ("afhq_stylegan2_ada_rtm", {"steps": 40})], ids=["imle", "gan"]
)
def test_two_kills_change_no_bit(
    forks: Forks,
    tmp_path: Path,
    name: str,
    length: dict[str, Any],
) -> None:
    chosen = smoke_workspace.experiment(name, save_every=3, **length)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    whole = smoke_workspace.run(tmp_path, chosen, "whole")
    whole.train()
    for _ in range(2):
        kill_after_a_save(forks, tmp_path, name, json.dumps(length))
    last = smoke_workspace.run(tmp_path, chosen, "killed")
    assert 0 < last.done < chosen.steps()
    last.train()
    torch.set_num_threads(threads)
    assert same(weights(whole), weights(last))
    assert same(whole.method.networks.state_dict(), last.method.networks.state_dict())


def test_processes_at_different_steps_end_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = smoke_workspace.experiment(IMLE)
    asked: list[str] = []

    monkeypatch.setattr(distributed, "wait", lambda: asked.append("wait for the lock"))
    monkeypatch.setattr(distributed, "gather", lambda step: [step, step + 2])
    monkeypatch.setattr(Run, "_load", lambda run: asked.append("load"))
    (tmp_path / "run").mkdir()
    (tmp_path / "run/state.pt").touch()
    with pytest.raises(UserError, match=r"read different saves of .* \(steps \[0, 2\]\)"):
        smoke_workspace.run(tmp_path, chosen)
    assert asked == ["wait for the lock", "load"]


def test_a_state_that_cannot_be_read_costs_one_save(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = smoke_workspace.experiment(IMLE, save_every=2)
    whole = smoke_workspace.run(tmp_path, chosen)
    whole.train()
    state = tmp_path / "run/state.pt"
    previous = tmp_path / "run/state.prev.pt"
    os.truncate(state, 50_000)
    resumed = smoke_workspace.run(tmp_path, chosen)
    assert resumed.done == chosen.steps() - 2
    damaged = f"{state} is damaged or of another kind: its sha256 is not the one in its first line."
    assert f"{damaged} Resuming at step {resumed.done} from {previous}." in capsys.readouterr().err
    resumed._save()
    assert saved(previous)["done"] == resumed.done  # the damaged state is not kept
    resumed.train()
    assert same(weights(whole), weights(resumed))
    assert [saved(path)["done"] for path in (state, previous)] == [6, 4]
    for path in (state, previous):
        os.truncate(path, 10)
    with pytest.raises(UserError, match=r"state\.pt is damaged .*state\.prev\.pt is damaged .* delete both"):
        smoke_workspace.run(tmp_path, chosen)
    state.unlink()
    previous.unlink()
    assert smoke_workspace.run(tmp_path, chosen).done == 0


def test_every_flipped_bit_of_a_save_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = smoke_workspace.experiment(IMLE, save_every=2)
    whole = smoke_workspace.run(tmp_path, chosen)
    whole.train()
    state = tmp_path / "run/state.pt"
    content = state.read_bytes()
    rng = Random(0)
    places = [rng.randrange(8 * 200) for _ in range(100)]  # bits of the header
    places += [rng.randrange(8 * len(content)) for _ in range(300)]
    for place in places:
        flipped = bytearray(content)
        flipped[place // 8] ^= 1 << place % 8
        state.write_bytes(flipped)
        assert (
            whole._restored(state) == f"{state} is damaged or of another kind: its sha256 is not the one in its "
            "first line."
        )
    state.write_bytes(content)
    assert whole._restored(state) == ""


@pytest.mark.parametrize(
    ("header", "state", "message"),
    [
        ({"seed": 1}, {}, "of another kind, run or seed"),
        ({"kind": "checkpoint"}, {}, "of another kind, run or seed"),
        ({"run": "another"}, {}, "of another kind, run or seed"),
        ({"more": 1}, {}, "of another kind, run or seed"),
        ({}, {"done": 10**9}, "has a save at step 1000000000 of 6"),
        ({}, {"done": 1.5}, "has a save at step 1.5 of 6"),
        ({}, {"ema": {"x": torch.tensor(float("nan"))}}, "averaged weights that are not finite"),
        ({}, {"ema": {}}, "cannot be read (RuntimeError)"),
        ({}, {"optimizers": {}}, "cannot be read (KeyError)"),
        ({}, {"log": [{"step": 6}, {"step": 1}]}, "whose log is not in order"),
        ({}, {"log": [{"step": 9}]}, "whose log is not in order"),
        ({}, {"log": None}, "cannot be read (TypeError)"),
    ],
)
def test_a_whole_save_that_is_another_is_not_taken(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    header: dict[str, Any],
    state: dict[str, Any],
    message: str,
) -> None:
    chosen = smoke_workspace.experiment(IMLE, save_every=2)
    smoke_workspace.run(tmp_path, chosen).train()
    path = tmp_path / "run/state.pt"
    with unsealed(path) as (own, _):
        pass
    content = saved(path)
    with sealed(path, own | header) as file:
        torch.save(content | state, file)
    assert smoke_workspace.run(tmp_path, chosen).done == chosen.steps() - 2
    assert message in capsys.readouterr().err


def test_weights_that_are_not_finite_are_neither_saved_nor_exported(tmp_path: Path) -> None:
    run = smoke_workspace.run(tmp_path, smoke_workspace.experiment(IMLE))
    next(run.ema.parameters()).data[0] = float("nan")
    with pytest.raises(UserError, match="not finite"):
        run._save()
    with pytest.raises(UserError, match="not finite"):
        run.export(tmp_path / "w.safetensors", tmp_path / "curve.csv", {})
    assert not [*tmp_path.glob("run/*"), *tmp_path.glob("w.*"), *tmp_path.glob("curve*")]


def test_data_that_change_are_noticed_at_the_next_save(tmp_path: Path) -> None:
    run = smoke_workspace.run(tmp_path, smoke_workspace.experiment(IMLE))
    images = tmp_path / "images.npy"
    os.utime(images, (0, 0))
    run._save()  # only the file's time has changed, not its bytes
    other = images.read_bytes()[:-1] + b"x"
    images.unlink()
    images.write_bytes(other)
    with pytest.raises(UserError, match=r"images\.npy changed while it was used; .*goes on from its last save"):
        run.train()
    assert smoke_workspace.run(tmp_path, smoke_workspace.experiment(IMLE)).done == 0


def test_a_deleted_log_is_begun_again_and_a_deleted_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = smoke_workspace.run(tmp_path, smoke_workspace.experiment(IMLE))
    step = run.method.step

    def deleting(at: int) -> dict[str, Tensor | float]:
        if at == 2:
            (tmp_path / "run/log.jsonl").unlink()
        return step(at)

    monkeypatch.setattr(run.method, "step", deleting)
    run.train()
    assert [json.loads(line)["step"] for line in (tmp_path / "run/log.jsonl").read_text("utf-8").splitlines()] == [6]
    with pytest.raises(UserError, match="was deleted while"):
        append(tmp_path / "gone/log.jsonl", {})
    assert exported_steps(run, tmp_path) == ["1", "6"]


def exported_steps(run: Run, folder: Path) -> list[str]:
    curve = folder / "curve.csv"
    run.export(folder / "w.safetensors", curve, {})
    return [row["step"] for row in csv.DictReader(curve.read_text("utf-8").splitlines())]


def _without_a_row(log: bytes) -> bytes:
    first, _, *others = log.splitlines(keepends=True)
    return b"".join([first, *others])


@pytest.mark.parametrize(
    "damage",
    [
        lambda log: log[:100],
        lambda log: b"",
        _without_a_row,
        lambda log: log.replace(b'"loss"', b'"lors"', 1),
        lambda log: log.replace(b'"loss": 2', b'"loss": 3', 1),
    ],
    ids=["truncated", "empty", "dropped", "another key", "another number"],
)
@pytest.mark.parametrize("is_finished", [False, True])
def test_a_damaged_log_is_written_again_and_never_becomes_the_curve(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    damage: Callable[[bytes], bytes],
    is_finished: bool,
) -> None:
    monkeypatch.setattr("rtm.training.loop.LOG_EVERY", 1)
    chosen = smoke_workspace.experiment(IMLE, save_every=2)
    smoke_workspace.run(tmp_path, chosen).train()
    log = tmp_path / "run/log.jsonl"
    if not is_finished:
        (tmp_path / "run/state.prev.pt").replace(tmp_path / "run/state.pt")
    whole = log.read_bytes()
    log.write_bytes(damage(whole))
    assert log.read_bytes() != whole
    capsys.readouterr()
    run = smoke_workspace.run(tmp_path, chosen)
    step = 6 if is_finished else 4
    assert capsys.readouterr().err == f"{log} is damaged; it is written again from the save of step {step}.\n"
    assert log.read_bytes() == b"".join(whole.splitlines(keepends=True)[:step])
    run.train()
    assert exported_steps(run, tmp_path) == list("123456")
    curve = list(csv.DictReader((tmp_path / "curve.csv").read_text("utf-8").splitlines()))
    first = json.loads(whole.splitlines()[0])
    assert curve[0] == {key: str(value) for key, value in first.items()}


def test_a_log_that_a_kill_cut_after_the_save_resumes_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rtm.training.loop.LOG_EVERY", 1)
    chosen = smoke_workspace.experiment(IMLE, save_every=2)
    whole = smoke_workspace.run(tmp_path, chosen)
    whole.train()
    (tmp_path / "run/state.prev.pt").replace(tmp_path / "run/state.pt")
    log = tmp_path / "run/log.jsonl"
    os.truncate(log, log.stat().st_size - 30)  # in the middle of the row of step 6
    capsys.readouterr()
    resumed = smoke_workspace.run(tmp_path, chosen)
    assert capsys.readouterr().err == ""
    resumed.train()
    assert same(weights(whole), weights(resumed))
    assert [json.loads(row)["step"] for row in log.read_text("utf-8").splitlines()] == [1, 2, 3, 4, 5, 5, 6]
    assert smoke_workspace.run(tmp_path, chosen).rows == resumed.rows
    assert capsys.readouterr().err.count("damaged") == 0
    assert exported_steps(resumed, tmp_path) == list("123456")


PARALLEL = """
import json, sys
from support import smoke_workspace
from pathlib import Path
from rtm.core import distributed
distributed.start(use_gpu=False)
experiment = smoke_workspace.experiment("shells_imle_rtm", json.loads(sys.argv[2]), epochs=4, save_every=5)
run = smoke_workspace.run(Path(sys.argv[1]), experiment, "parallel")
run.train()
distributed.stop()
"""


def last_of_log(folder: Path, name: str) -> float:
    return float(json.loads((folder / "log.jsonl").read_text("utf-8").splitlines()[-1])[name])


STAGGERED = {"stagger": True, "refresh": 2, "epsilon": 1.0}
APPROXIMATE = {"pool": 16, "search": {"kind": "ivf", "lists": 16, "probes": 4, "checked": 20, "least": 0}}


@pytest.mark.slow(seconds=24)
@pytest.mark.parametrize("imle", [{}, STAGGERED, APPROXIMATE], ids=["whole", "staggered", "approximate"])
def test_two_processes_train_as_one(forks: Forks, tmp_path: Path, imle: dict[str, object]) -> None:
    chosen = smoke_workspace.experiment(IMLE, imle, epochs=4, save_every=5)
    single = smoke_workspace.run(tmp_path, chosen, "single")
    begun = {name: tensor.clone() for name, tensor in weights(single).items()}
    single.train()
    in_parts = smoke_workspace.experiment(IMLE, imle, epochs=4, save_every=5, accumulate=2)
    smoke_workspace.run(tmp_path, in_parts, "in parts").train()
    forks.run_two(PARALLEL, str(tmp_path), json.dumps(imle))
    parallel = smoke_workspace.run(tmp_path, chosen, "parallel")
    assert parallel.done == chosen.steps()
    assert losses(tmp_path / "parallel") == pytest.approx(losses(tmp_path / "single"), rel=1e-4)
    assert losses(tmp_path / "parallel") == pytest.approx(losses(tmp_path / "in parts"), rel=1e-4)
    recalls = ("search_recall", "search_recall_rare", "search_recall_rejected") if "search" in imle else ()
    for number in ("rounds", "epsilon", "rejected", "matched_gap", "distinct_matches", *recalls):
        found = [last_of_log(tmp_path / name, number) for name in ("parallel", "single")]
        assert found[0] == pytest.approx(found[1], abs=0.03)  # weights differ by rounding, so a few matches may differ
    # instance norms remove the effect of these: their gradients are only rounding, which Adam turns into full steps
    removed = ("decoder.constant", "decoder.layers.0.", "decoder.layers.1.branch.layers.7.bias")
    for name, tensor in weights(single).items():
        if not name.startswith(removed):
            moved = (tensor - begun[name]).norm()
            # 1e-4 on most processors; more if Adam magnifies the rounding of gradients near zero; 1 with other pairs
            assert (weights(parallel)[name] - tensor).norm() <= 0.02 * moved, name


def test_divergence_is_named_and_not_saved(tmp_path: Path) -> None:
    diverging = smoke_workspace.run(
        tmp_path, smoke_workspace.experiment(IMLE, epochs=30, lr=1e30, warmup=0, save_every=1)
    )
    with pytest.raises(UserError, match=r"shells_imle_rtm diverged at step \d+"):
        diverging.train()
    state = tmp_path / "run/state.pt"
    if state.exists():
        assert all(tensor.isfinite().all() for tensor in saved(state)["networks"].values())


def test_the_checkpoint_explains_itself_and_draws(tmp_path: Path) -> None:
    chosen = smoke_workspace.experiment(IMLE)
    run = smoke_workspace.run(tmp_path, chosen)
    run.train()
    described = json.loads(json.dumps(metadata_of(chosen)))
    run.export(tmp_path / "w.safetensors", tmp_path / "curve.csv", described)
    assert checkpoint_metadata(tmp_path / "w.safetensors") == described
    assert (
        (tmp_path / "curve.csv")
        .read_text("utf-8")
        .startswith("step,seconds,images_per_second,memory_gb,loss,lr,rounds,epsilon,rejected,matched_gap,match_mean")
    )
    generator = load_generator(chosen.architecture, tmp_path / "w.safetensors", torch.device("cpu"))
    together = draw(generator, chosen.architecture, 0, torch.arange(5))
    assert together.shape == (5, 8, 8, 3)
    assert together.dtype == torch.uint8
    alone = draw(generator, chosen.architecture, 0, torch.tensor([3]))
    assert (together[3].int() - alone[0].int()).abs().max() <= 1  # with another batch size rounding may differ
    other = smoke_workspace.experiment("shells_imle_mlp")
    with pytest.raises(UserError, match="does not fit"):
        load_generator(other.architecture, tmp_path / "w.safetensors", torch.device("cpu"))
    with pytest.raises(UserError, match="dvc pull"):
        load_generator(chosen.architecture, tmp_path / "absent.safetensors", torch.device("cpu"))


def test_the_selected_weights_are_those_that_scored_best(tmp_path: Path) -> None:
    seen: list[dict[str, Tensor]] = []
    scores = [3.0, 1.0, 2.0]  # after steps 2, 4 and 6

    def measure(generator: torch.nn.Module) -> dict[str, float]:
        seen.append({name: tensor.clone() for name, tensor in generator.state_dict().items()})
        return {"fid": scores[len(seen) - 1]}

    setting = smoke_workspace.setting(tmp_path, smoke_workspace.experiment(IMLE))
    run = Run(build_method(setting), setting, tmp_path / "run", Watch(2, measure, selects=True))
    run.train()
    run.export(tmp_path / "w.safetensors", tmp_path / "curve.csv", {})
    assert checkpoint_metadata(tmp_path / "w.safetensors") == {"selected_step": 4, "selection_score": 1.0}
    assert same(load_file(tmp_path / "w.safetensors"), seen[1])
    assert not same(seen[1], seen[2])
    assert Run(build_method(setting), setting, tmp_path / "run").best["step"] == 4  # the state contains it
    curve = [row for row in csv.DictReader((tmp_path / "curve.csv").read_text("utf-8").splitlines()) if row["fid"]]
    assert [(row["step"], row["fid"]) for row in curve] == [("2", "3.0"), ("4", "1.0"), ("6", "2.0")]
    assert all(row["loss"] for row in curve)


def test_a_watched_run_keeps_its_last_weights(tmp_path: Path) -> None:
    setting = smoke_workspace.setting(tmp_path, smoke_workspace.experiment(IMLE))
    alone = Run(build_method(setting), setting, tmp_path / "alone")
    watch = Watch(2, lambda generator: {"fid": float(len(list(generator.parameters())))}, selects=False)
    watched = Run(build_method(setting), setting, tmp_path / "watched", watch)
    for run, name in ((alone, "alone"), (watched, "watched")):
        run.train()
        run.export(tmp_path / f"{name}.safetensors", tmp_path / f"{name}.csv", {})
    assert same(load_file(tmp_path / "alone.safetensors"), load_file(tmp_path / "watched.safetensors"))
    assert "fid" not in (tmp_path / "alone.csv").read_text("utf-8")


def test_grids_are_images(tmp_path: Path) -> None:
    smoke_workspace.run(tmp_path, smoke_workspace.experiment(IMLE)).train()
    sheet = np.asarray(Image.open(sorted((tmp_path / "run").glob("grid_*.png"))[0]))
    assert sheet.shape == (64, 64, 3)
    assert sheet.std() > 0
