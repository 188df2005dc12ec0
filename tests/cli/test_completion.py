"""Completion knows every verb, option and name of params/."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import PARAMS
from support.command import rtm

from rtm.trial import recipe
from rtm.trial.recipe import Choice, Machine


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_verbs_options_and_names(shell: str, tmp_path: Path) -> None:
    script = rtm("--completion", shell).stdout
    for word in ("lineage", "memorisation", "digits_rtm_h1", "tab_halt_sweep", "fig_pairs_afhq_2", "studiogan"):
        assert word in script
    if shutil.which(shell):
        (tmp_path / "script").write_text(script, "utf-8")
        subprocess.run([shell, "-n", str(tmp_path / "script")], check=True)


def test_a_trial_is_completed_as_soon_as_it_is_there(tmp_path: Path) -> None:
    (tmp_path / "params").symlink_to(PARAMS)
    assert "cats" not in rtm("--completion", "bash", cwd=tmp_path).stdout
    recipe.write(tmp_path / "try/cats/params.yaml", Choice("cats", 100, 32, Machine(2, 0), 48), "0" * 64, 0.5)
    script = rtm("--completion", "bash", cwd=tmp_path).stdout
    for word in ("try/cats", "try/cats/cats_rtm", "tab_cats", "cats_mlp"):
        assert word in script


def test_where_no_name_fits_files_are_completed() -> None:
    assert "complete -o bashdefault -o default -F" in rtm("--completion", "bash").stdout


def test_without_shtab_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    answer = rtm("--completion", "bash")
    assert answer.returncode == 1
    assert answer.stderr == "rtm: Completion needs shtab; install it with `pip install shtab`.\n"
