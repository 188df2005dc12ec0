"""A run has one owner: its lock ends with its process and is checked before every save."""

import errno
import fcntl
import getpass
import shutil
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
from support import smoke_workspace

from rtm.core.errors import UserError
from rtm.methods.registry import build_method
from rtm.training import folder as module
from rtm.training.folder import history_of, is_running, listen, locked, log_rows, only_one
from rtm.training.loop import Run

HOLDER = """
import sys
from pathlib import Path
from rtm.training.folder import only_one
with only_one(Path(sys.argv[1])):
    print("held", flush=True)
    input()
"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.0)


def test_a_run_has_one_owner(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    with pytest.raises(UserError, match=f"already being trained by .*:{process.pid}"), only_one(tmp_path):
        pass
    assert is_running(tmp_path)
    process.kill()
    process.communicate()
    assert not is_running(tmp_path)
    with only_one(tmp_path):
        pass


def test_leftovers_of_a_killed_owner_are_removed_only_under_the_lock(tmp_path: Path) -> None:
    left = tmp_path / ".state.pt.host.1.tmp"
    left.touch()
    with only_one(tmp_path):
        assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_the_owner_in_a_job_is_named_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    with only_one(tmp_path):
        assert (tmp_path / "lock").read_text("utf-8").startswith("SLURM job 17 on ")


def test_an_owner_that_lost_its_lock_saves_nothing(tmp_path: Path) -> None:
    setting = smoke_workspace.setting(tmp_path, smoke_workspace.experiment("shells_imle_rtm"))
    folder = tmp_path / "run"
    with only_one(folder) as check_owner:
        (folder / "lock").write_text("somebody:1", "utf-8")
        run = Run(build_method(setting), setting, folder, check_owner=check_owner)
        with pytest.raises(UserError, match="taken over"):
            run.train()
    assert not (folder / "state.pt").exists()
    with only_one(folder) as check_owner:
        check_owner()
        (folder / "lock").unlink()
        with pytest.raises(UserError, match="was deleted while it was trained"):
            check_owner()


def test_a_file_system_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "lockf", refuse)
    with pytest.raises(UserError, match="cannot lock files"), only_one(tmp_path):
        pass


@pytest.mark.parametrize(
    "content",
    ["{}", "[]", '{"experiment": "x", "seed": 0}', '{"experiment": "x", "seed": 0, "slices": []}', '{"slices": [{}]}'],
)
def test_a_damaged_history_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "run.json").write_text(content, "utf-8")
    with pytest.raises(UserError, match=r"run\.json is damaged .*; delete it: the training resumes"):
        history_of(tmp_path)


def test_the_error_names_the_user_who_owns_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lock").write_text("node7:12", "utf-8")

    def refuse(path: Path, mode: str, **_: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(module, "open", refuse, raising=False)  # root may write everywhere
    message = rf"belongs to {getpass.getuser()} \(last trained by node7:12\) and you cannot write to it"
    with pytest.raises(UserError, match=message), only_one(tmp_path):
        pass


@pytest.mark.parametrize("is_part", [False, True])
def test_a_second_ctrl_c_ends_at_once_but_for_torchruns_own(is_part: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    monkeypatch.setenv("RANK", "0") if is_part else monkeypatch.delenv("RANK", raising=False)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGURG, signal.SIGINT)}
    try:
        listen(lambda: asked.append(True))
        signal.raise_signal(signal.SIGINT)
        with nullcontext() if is_part else pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert len(asked) == 1 + is_part


def test_nohup_is_respected() -> None:
    numbers = (signal.SIGTERM, signal.SIGURG, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        for given in (signal.SIG_IGN, signal.SIG_DFL):
            signal.signal(signal.SIGHUP, given)
            listen(lambda: None)
            assert (signal.getsignal(signal.SIGHUP) == signal.SIG_IGN) == (given == signal.SIG_IGN)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.parametrize("seconds", ["-7200.0", "NaN", "1e999"])
def test_a_history_of_negative_hours_is_not_believed(tmp_path: Path, seconds: str) -> None:
    part = '{"host": "h", "pid": 1, "job": null, "gpus": 1, "began": 1.0, "ended": "done", "seconds": ' + seconds + "}"
    (tmp_path / "run.json").write_text('{"experiment": "x", "seed": 0, "slices": [' + part + "]}", "utf-8")
    with pytest.raises(UserError, match=r"run\.json is damaged .*slices\.0\.seconds"):
        history_of(tmp_path)


def test_a_clock_that_is_set_back_records_no_negative_hours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with locked(tmp_path, "x", 0, gpus=2):
        monkeypatch.setattr("time.time", lambda: 0.0)
    history = history_of(tmp_path)
    assert history is not None
    assert history.slices[0].ended == "done"
    assert history.gpu_hours >= 0


def test_the_end_of_a_deleted_run_makes_no_folder(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with pytest.raises(UserError, match="was deleted while it was trained"), locked(folder, "x", 0, 0) as check_owner:
        shutil.rmtree(folder)
        check_owner()
    assert not folder.exists()


def test_a_half_written_line_of_the_log_is_left_out(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    assert log_rows(log) == []
    log.write_bytes(b'{"step": 1}\n{"step": 2, "lo\x00\x00{"step": 3}\n{"step": 4}\n{"st')
    assert log_rows(log) == [{"step": 1}, {"step": 4}]
    assert log_rows(log, 18) == [{"step": 4}]
