"""A warm process does what a cold one does: output, exit code, folder and environment are the caller's."""

import subprocess
from pathlib import Path

import pytest
from support.workspace import copied, environment

from rtm.cli.forkserver import running


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(tmp_path_factory.mktemp("warm"))


def rtm(folder: Path, given: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["rtm", *words], cwd=folder, env=given, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )


def test_warm_and_cold_are_alike(folder: Path) -> None:
    cold = environment(folder)
    with running(cold, folder) as warm:
        for words in (["schema"], ["train", "nothing"], ["table"], ["lineage", "why", "train/digits"]):
            expected, got = rtm(folder, cold, *words), rtm(folder, warm, *words)
            assert (got.returncode, got.stdout, got.stderr) == (expected.returncode, expected.stdout, expected.stderr)
        assert rtm(folder / "rtm", warm, "schema").returncode == 0
        assert "root of the repository" in rtm(folder / "rtm", warm, "doctor").stderr  # the caller's folder
        made = rtm(folder, {**warm, "OMP_NUM_THREADS": "1"}, "fetch", "digits", "--scale", "demo")
        assert made.returncode == 0 and (folder / "data/digits/images.npy").exists()


def test_changed_code_is_never_run_from_memory(folder: Path) -> None:
    with running(environment(folder), folder) as warm:
        (folder / "rtm/core/errors.py").write_text(
            (folder / "rtm/core/errors.py").read_text() + "\nraise SystemExit(41)\n"
        )
        assert rtm(folder, warm, "schema").returncode == 41


def test_without_a_server_it_works_alone(folder: Path, tmp_path: Path) -> None:
    given = {**environment(copied(tmp_path)), "RTM_FORKSERVER": str(tmp_path / "nobody")}
    assert rtm(tmp_path, given, "schema").returncode == 0
