"""Snakemake's rules follow from the stages."""

import re
from pathlib import Path

import pytest
from support import ROOT

from rtm.pipeline import rules
from rtm.pipeline.rules import rule, write_rules
from rtm.stages import stages


def test_the_rules_of_the_repository_are_those_of_its_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    files = {path.as_posix(): path.read_text("utf-8") for path in Path("workflow/rules").glob("*.smk")}
    assert set(write_rules()) == files.keys() - {"workflow/rules/doctor.smk"}
    assert files == {path.as_posix(): path.read_text("utf-8") for path in Path("workflow/rules").glob("*.smk")}


def test_only_rules_that_differ_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several processes of Snakemake read the rules while one may write them."""
    monkeypatch.chdir(tmp_path)
    paths = [Path(path) for path in write_rules()]
    paths[0].write_text("older", "utf-8")
    times = [path.stat().st_mtime_ns for path in paths]
    write_rules()
    changed = [path for path, time in zip(paths, times, strict=True) if path.stat().st_mtime_ns != time]
    assert changed == paths[:1]
    assert paths[0].read_text("utf-8").startswith("# Written from rtm/stages/")


@pytest.mark.parametrize("name", stages())
def test_a_rule_shows_its_files_and_calls_rtm_make(name: str) -> None:
    stage = stages()[name]
    text = rule(stage)
    assert f"\nrule {name}:\n" in f"\n{text}"
    for key, pattern in stage.files.items():
        assert (f'"{{root}}{pattern}"' in text) == (key not in stage.optional)
    for before, key in stage.reads.items():
        assert f'{before}="{{root}}{stages()[before].files[key]}"' in text
    assert re.search(rf"rtm make '\{{wildcards\.root\}}{name}/", text)
    assert ("localrules" in text) == stage.local
    assert ("plan.resources" in text) != stage.local


def test_a_training_gets_signals_itself_and_keeps_its_old_weights() -> None:
    text = rule(stages()["train"])
    assert '"exec rtm make' in text
    assert 'update("{root}checkpoints/' in text
    assert "{params.gpus}" in text
    assert "update(" not in rule(stages()["evaluate"])


def test_measurements_of_a_checkpoint_are_one_group() -> None:
    for name in ("evaluate", "gallery"):
        assert '"measure_{root}{experiment}_seed{seed}"' in rule(stages()[name])
    assert 'plan.group("latency")' in rule(stages()["latency"])
    assert 'plan.all_threads("latency")' in rule(stages()["latency"])
    assert Path("workflow/rules") == rules.FOLDER
