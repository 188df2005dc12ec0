"""Completion knows every verb, option and name of params/."""

import shutil
import subprocess
from pathlib import Path

import pytest
from support.command import rtm


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_verbs_options_and_names(shell: str, tmp_path: Path) -> None:
    script = rtm("completion", shell).stdout
    for word in ("lineage", "memorisation", "digits_rtm_h1", "tab_halt_sweep", "fig_pairs_afhq_2", "studiogan"):
        assert word in script
    if shutil.which(shell):
        (tmp_path / "script").write_text(script)
        subprocess.run([shell, "-n", str(tmp_path / "script")], check=True)
