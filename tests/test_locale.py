"""A locale that is not UTF-8 changes no file, no hash and no printed line."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import PARAMS, ROOT, fake_results

from rtm.config import load

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
UTF8 = {"LC_ALL": "C.UTF-8"}
HASH = "from rtm.lineage.code import present; print(present().root(['rtm.reports.sheets', 'rtm.training.assembly']))"


def output(folder: Path, locale: dict[str, str], *words: str) -> str:
    others = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LC_", "LANG"))}
    environment = {**others, **locale, "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Invented results, in a folder with an odd name."""
    folder = tmp_path_factory.mktemp("work") / "Größe"
    shutil.copytree(PARAMS, folder / "params")
    config = load("demo").at(folder)
    for name in config.experiments:
        fake_results.write_results(config, name, {}, spread=0.1)
    return folder


@pytest.mark.slow(seconds=12)
def test_a_table_and_its_lineage_are_the_same_in_every_locale(results: Path, tmp_path: Path) -> None:
    shown = {}
    files = {}
    for number, locale in enumerate((UTF8, ASCII)):
        folder = Path(shutil.copytree(results, tmp_path / str(number) / "Größe"))
        table = output(folder, locale, "-m", "rtm", "table", "tab_digits", "--available", "--scale", "demo")
        stale = output(folder, locale, "-m", "rtm", "lineage", "why", "demo/reports/tab_digits.tex")
        shown[number] = (table, stale)
        files[number] = {path.name: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    assert all(mark in shown[0][0] for mark in "±↑↓")
    assert shown[0] == shown[1]
    assert files[0] == files[1]


def test_the_hash_of_the_code_is_the_same_in_every_locale() -> None:
    assert output(ROOT, ASCII, "-c", HASH) == output(ROOT, UTF8, "-c", HASH)


def test_a_table_is_printed_where_only_ascii_may_be_printed(results: Path) -> None:
    table = output(
        results,
        UTF8 | {"PYTHONIOENCODING": "ascii"},
        "-m",
        "rtm",
        "table",
        "tab_digits",
        "--available",
        "--scale",
        "demo",
    )
    assert table.isascii()
    assert r"\xb1" in table  # instead of ±
