"""Notes say how numbers were measured, and what they may be compared with."""

import re
from pathlib import Path

from support import fake_results
from support.reports import DEMO, PAPER, SMOKE

from rtm.config import Config
from rtm.core.files import read_json, write_json
from rtm.core.layout import Layout
from rtm.reports.cells import build
from rtm.reports.notes import notes


def test_notes_say_what_other_samples_would_change_and_what_real_images_score(demo: Layout, reproduced: Layout) -> None:
    found = notes(DEMO, demo, build(DEMO, demo, "tab_digits"))
    moved = next(note for note in found if note.startswith("With other samples of the same model (95 %): "))
    assert "precision ± 0.080," in moved and "FID ± 9.7 to 10.0." in moved
    assert "FID of real images against other real images: digits300 0.6 (5 against 6 images)." in found
    one_seed = "\n".join(notes(PAPER, reproduced, build(PAPER, reproduced, "tab_fid")))
    assert "(95 %): FID ± " in one_seed and "obama 0.5 (5 against 6 images), grumpy_cat 0.5" in one_seed
    assert "other samples" not in "".join(notes(PAPER, Layout(demo.root, demo.root), build(PAPER, demo, "tab_fid")))


def notes_of(config: Config, layout: Layout, table: str) -> list[str]:
    return notes(config, layout, build(config, layout, table))


def test_the_conditions_of_a_measurement_come_from_its_files(tmp_path: Path) -> None:
    layout = Layout(tmp_path, tmp_path)
    for name, samples, batch in (("cifar10_imle_mlp", 64, 64), ("cifar10_imle_rtm", 50_000, 8)):
        fake_results.write_results(PAPER, layout, name, {})
        path = layout.metrics(name, "paper", 0)
        write_json(path, read_json(path) | {"samples": samples})
        path = layout.latency(name)
        write_json(path, read_json(path) | {"device": "Abacus", "batch": batch})
    shown = notes_of(PAPER, layout, "tab_cifar10")
    assert "Time per image: Abacus, batch 64; Abacus, batch 8." in shown
    assert any(note.startswith("Protocol paper, 64 or 50,000 samples: torch-fidelity") for note in shown)
    assert not any("Time per image" in note for note in notes_of(PAPER, layout, "tab_halt_sweep"))
    for table in (*PAPER.tables.values(), *DEMO.tables.values()):
        assert not re.search(r"samples|this machine|[Tt]ime per image", table.caption)


def test_a_note_names_stand_ins(tmp_path: Path) -> None:
    layout = Layout(tmp_path, tmp_path)
    assert notes_of(SMOKE, layout, "tab_fid")[-2].startswith("Scale: smoke: small stand-ins for data and models")
    assert "Scale: demo." in notes_of(DEMO, layout, "tab_digits")


def test_a_dagger_is_for_what_somebody_published(tmp_path: Path) -> None:
    """NVAE's number comes from the publication of LSGM, not from NVAE's."""
    assert any(
        note == "†: quoted from a publication, not evaluated by the paper's authors."
        for note in notes_of(PAPER, Layout(tmp_path, tmp_path), "tab_celebahq")
    )
    assert all(
        "evaluation" in entry.source for entry in PAPER.params.published.values() if entry.cite and not entry.quoted
    )
