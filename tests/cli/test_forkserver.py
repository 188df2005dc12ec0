"""A warm process does the same as a cold one: same output and exit code, in the caller's folder and environment."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.workspace import copied, environment

from rtm.cli import forkserver
from rtm.cli.forkserver import running
from rtm.core.files import write_text

pytestmark = pytest.mark.slow(seconds=5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(tmp_path_factory.mktemp("warm"))


@pytest.fixture(scope="module")
def warm(folder: Path) -> Iterator[dict[str, str]]:
    """The environment for calls to one server, which all tests of this file share."""
    with running(environment(folder), folder) as given:
        yield given


def rtm(folder: Path, given: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["rtm", *words], cwd=folder, env=given, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )


def test_warm_and_cold_are_alike(folder: Path, warm: dict[str, str]) -> None:
    cold = environment(folder)
    for words in (["schema"], ["train", "nothing"], ["table"], ["lineage", "why", "train/digits"]):
        expected, got = rtm(folder, cold, *words), rtm(folder, warm, *words)
        assert (got.returncode, got.stdout, got.stderr) == (expected.returncode, expected.stdout, expected.stderr)
    assert rtm(folder / "rtm", warm, "schema").returncode == 0
    assert rtm(folder / "rtm", warm, "doctor").stdout == rtm(folder, warm, "doctor").stdout  # also below the root
    assert "root of the repository" in rtm(folder.parent, warm, "doctor").stderr  # it uses the caller's folder
    made = rtm(folder, {**warm, "OMP_NUM_THREADS": "1"}, "fetch", "digits", "--scale", "demo")
    assert made.returncode == 0 and (folder / "data/digits/images.npy").exists()


def test_changed_code_is_never_run_from_memory(folder: Path, warm: dict[str, str]) -> None:
    code = folder / "rtm/core/errors.py"
    before = code.read_text()
    code.write_text(f"{before}\nraise SystemExit(41)\n")
    assert rtm(folder, warm, "schema").returncode == 41
    code.write_text(before)


def test_every_file_that_a_fingerprint_may_hold_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forkserver, "PACKAGE", tmp_path)
    for name in ("a.py", "web/page.html.j2", "__pycache__/a.pyc"):
        write_text(tmp_path / name, "1")
    assert set(forkserver._times()) == {str(tmp_path / name) for name in ("a.py", "web/page.html.j2")}


def test_without_a_server_it_works_alone(folder: Path, tmp_path: Path) -> None:
    given = {**environment(folder), "RTM_FORKSERVER": str(tmp_path / "nobody")}
    assert rtm(folder, given, "schema").returncode == 0
