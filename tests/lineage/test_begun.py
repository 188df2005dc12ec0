"""The folder of a training: named by its values and inputs, and begun with one code."""

from pathlib import Path

import pytest
from support.small_jobs import edit, training

from rtm.core.errors import UserError
from rtm.core.files import write_json, write_text
from rtm.core.readers import read_json
from rtm.lineage import begun
from rtm.lineage.begun import FILE, begin, is_unfinished, other_code
from rtm.lineage.freshness import Freshness
from rtm.stages.base import Job, Recording

pytestmark = pytest.mark.usefixtures("package")


def recording(job: Job) -> Recording:
    return Recording("fingerprint", Freshness().parts(job))


def save(folder: Path, ended: str, step: int = 7) -> None:
    """Write what a training leaves behind."""
    times = {"host": "h", "pid": 1, "job": None, "gpus": 0, "began": 0.0, "ended": ended}
    write_json(folder / "run.json", {"experiment": "x", "seed": 0, "slices": [times]})
    write_text(folder / "log.jsonl", f'{{"step": {step}}}\n{{"st')
    write_text(folder / "state.pt", "state")


def test_a_folder_belongs_to_values_and_not_to_code(package: Path) -> None:
    first = begin(training(lr=1), recording(training(lr=1)))
    assert begin(training(lr=2), recording(training(lr=2))) != first
    code = read_json(first / FILE)["code"]
    assert code == Freshness().parts(training())["code"]
    edit(package, "third", "return 2", "return 3")
    assert begin(training(lr=1), recording(training(lr=1))) == first  # it had no save
    assert read_json(first / FILE)["code"] != code


def test_an_unfinished_training_of_other_code_is_refused(package: Path) -> None:
    folder = begin(training(), recording(training()))
    save(folder, "stopped")
    assert begin(training(), recording(training())) == folder
    edit(package, "third", "return 2", "return 3")
    message = r"holds this training at step 7, begun with other code: .*`rtm lineage accept train/x/seed0 --reason"
    with pytest.raises(UserError, match=message):
        begin(training(), recording(training()))
    assert (folder / "state.pt").exists()


def test_a_finished_training_of_other_code_is_removed(package: Path) -> None:
    folder = begin(training(), recording(training()))
    save(folder, "done")
    edit(package, "third", "return 2", "return 3")
    assert begin(training(), recording(training())) == folder
    assert not (folder / "state.pt").exists()


def test_a_run_that_is_trained_now_stays(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = begin(training(), recording(training()))
    save(folder, "done")
    edit(package, "third", "return 2", "return 3")
    monkeypatch.setattr(begun, "is_running", lambda each: each == folder)
    begin(training(), recording(training()))
    assert (folder / "state.pt").exists()


@pytest.mark.parametrize(("ended", "unfinished"), [("stopped", True), ("failed", True), ("done", False)])
def test_a_run_is_unfinished_until_it_is_done(tmp_path: Path, ended: str, unfinished: bool) -> None:
    assert not is_unfinished(tmp_path / "run")
    save(tmp_path / "run", ended)
    assert is_unfinished(tmp_path / "run") is unfinished
    (tmp_path / "run/state.pt").unlink()
    assert not is_unfinished(tmp_path / "run")


@pytest.mark.parametrize("text", ["{", "[]", '{"fingerprint": "x"}', '{"code": 3, "revision": null}'])
def test_a_damaged_note_is_named(text: str) -> None:
    folder = begin(training(), recording(training()))
    write_text(folder / FILE, text)
    with pytest.raises(UserError, match=r"begun\.json is damaged .*delete"):
        other_code(Freshness(), training(), folder)
