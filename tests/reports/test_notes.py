"""Notes say how numbers were measured, and what they may be compared with."""

import re
from pathlib import Path

import pytest
from support import fake_results
from support.reports import DEMO, PAPER, SMOKE

from rtm.config import Config
from rtm.core.files import write_json
from rtm.core.readers import read_json
from rtm.reports.sheets import build
from rtm.stages.evaluate import Evaluate
from rtm.stages.latency import Latency


def test_notes_say_what_other_samples_would_change_and_what_real_images_score(demo: Config, reproduced: Config) -> None:
    notes = build(demo, "tab_digits").notes
    sampling = next(note for note in notes if note.startswith("With other samples of the same model (95 %): "))
    assert "precision ± 0.080," in sampling
    assert "FID ± 9.7 to 10.0." in sampling
    assert "FID of real images against other real images: digits300 0.6 (5 against 6 images)." in notes
    one_seed = "\n".join(build(reproduced, "tab_fid").notes)
    assert "(95 %): FID ± " in one_seed
    assert "obama 0.5 (5 against 6 images), grumpy_cat 0.5" in one_seed


def test_the_conditions_of_a_measurement_come_from_its_files(tmp_path: Path) -> None:
    config = PAPER.at(tmp_path)
    assert "other samples" not in "".join(build(config, "tab_fid").notes)
    for name, samples, batch in (("cifar10_imle_mlp", 64, 64), ("cifar10_imle_rtm", 50_000, 8)):
        fake_results.write_results(config, name, {})
        for path, change in (
            (
                Evaluate().path(
                    config,
                    "metrics",
                    experiment=name,
                    protocol="paper",
                    seed=0,
                ),
                {"samples": samples},
            ),
            (Latency().path(config, "cost", experiment=name), {"device": "Abacus", "batch": batch}),
        ):
            write_json(path, read_json(path) | change)
    notes = build(config, "tab_cifar10").notes
    assert "Time per image: Abacus, batch 64; Abacus, batch 8." in notes
    assert any(note.startswith("Protocol paper, 64 or 50,000 samples: torch-fidelity") for note in notes)
    assert "Time per image" not in "".join(build(config, "tab_halt_sweep").notes)
    for table in (*PAPER.tables.values(), *DEMO.tables.values()):
        assert not re.search(r"samples|this machine|[Tt]ime per image", table.caption)


def test_a_note_names_the_rows_that_were_timed_on_a_busy_machine(tmp_path: Path) -> None:
    config = PAPER.at(tmp_path)
    names = ("cifar10_imle_mlp", "cifar10_imle_rtm")
    for name, is_disturbed in zip(names, (False, True), strict=True):
        fake_results.write_results(config, name, {})
        path = Latency().path(config, "cost", experiment=name)
        timed = {"quartiles_ms": {"native": [0.9, 1.6]}, "load": 2.34, "disturbed": is_disturbed}
        write_json(path, read_json(path) | timed)
    (note,) = [note for note in build(config, "tab_cifar10").notes if "busy" in note]
    assert note == (
        "Measured on a busy machine, so their time per image is too long: cifar10_imle_rtm (load 2.3 for each core, "
        "quartiles 0.9 to 1.6 ms)."
    )


def test_a_note_says_which_rows_were_timed_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = ("cifar10_imle_mlp", "cifar10_imle_rtm")
    days = ["2026-01-01", "2026-01-01"]
    for name in names:
        fake_results.write_results(PAPER, name, {})

    def apart() -> list[str]:
        for name, day in zip(names, days, strict=True):
            parts = {"params": {}, "code": "", "inputs": {}}
            made = {"host": "Abacus", "time": f"{day}T12:00:00+00:00"}
            receipt = {"fingerprint": "", "parts": parts, "outputs": {}, "made": made}
            write_json(Latency().job(PAPER, experiment=name).receipt, receipt)
        return [note for note in build(PAPER, "tab_cifar10").notes if "apart" in note]

    assert apart() == []
    days[1] = "2026-02-03"
    assert apart() == [
        "Times per image were measured apart, so compare them with care: Abacus on 2026-01-01 (cifar10_imle_mlp); "
        "Abacus on 2026-02-03 (cifar10_imle_rtm)."
    ]


def test_a_note_names_stand_ins(tmp_path: Path) -> None:
    smoke = "Scale: smoke: small stand-ins for data and models"
    assert build(SMOKE.at(tmp_path), "tab_fid").notes[-2].startswith(smoke)
    assert "Scale: demo." in build(DEMO.at(tmp_path), "tab_digits").notes


def test_a_dagger_is_for_what_somebody_published(tmp_path: Path) -> None:
    """NVAE's number comes from the publication of LSGM, not from NVAE's."""
    dagger = "†: quoted from a publication, not evaluated by the paper's authors."
    assert dagger in build(PAPER.at(tmp_path), "tab_celebahq").notes
    entries = PAPER.params.published.values()
    assert all("evaluation" in entry.source for entry in entries if entry.cite and not entry.quoted)
