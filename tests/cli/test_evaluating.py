"""`rtm evaluate` of any images: it refuses before hours of work, and prints readable lines."""

from pathlib import Path
from typing import Any

from support import PARAMS
from support.command import rtm

from rtm.cli.evaluating import WIDTH, lines_of

SAME = {"name": "digits", "images": 200}
RESULT: dict[str, Any] = {
    "images": {"name": "fakes.npy", "found": 1700},
    "reference": SAME,
    "samples": 1500,
    "protocol": "digits",
    "off_protocol": ["1,500 images instead of 1,797"],
    "notes": ["30 images of fakes.npy are in digits too, bit for bit"],
    "metrics": {"fid": 12.3456, "fid_floor": 1.0, "kid": 0.0051, "recall": 0.5},
    "intervals": {"fid": (11.0, 13.0), "kid": (0.005, 0.006)},
    "missing": {"is": "the file of the network lacks the classes of the Inception score"},
    "floor": (5000, 4000),
}


def test_a_place_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    """The refusal comes before the search for the images, which do not exist here."""
    (tmp_path / "params").symlink_to(PARAMS)
    (tmp_path / "file").touch()
    words = ("evaluate", "fakes.npy", "digits", "--protocol", "digits", "--scale", "demo", "--json")
    for place, said in {"file/x.json": "cannot be written", ".": "is a folder", "/proc/x.json": "cannot be"}.items():
        answer = rtm(*words, place, cwd=tmp_path)
        assert answer.returncode == 1 and f"{place} {said}" in answer.stderr
    assert "fakes.npy is neither a file" in rtm(*words, "x.json", cwd=tmp_path).stderr


def test_a_result_is_printed_for_people() -> None:
    assert "\n".join(lines_of(RESULT)).splitlines() == [
        "fakes.npy (1,500 of its 1,700 images) against digits (200 images), protocol",
        "digits",
        "off protocol: 1,500 images instead of 1,797",
        "note: 30 images of fakes.npy are in digits too, bit for bit",
        "",
        "                          95 % interval",
        "FID              12.346   11.000 to 13.000",
        "  floor           1.000   FID of 5,000 against 4,000 of the reference's own",
        "KID x 1000       5.1000   5.0000 to 6.0000",
        "IS                 none   the file of the network lacks the classes of the",
        "                          Inception score",
        "recall           0.5000",
    ]


def test_what_is_said_of_copies_is_printed_within_80_columns() -> None:
    *_, last = lines_of({**RESULT, "memorisation": {"says": "no sample is a copy"}})
    assert last == "copies: no sample is a copy"
    long = {**RESULT, "images": {"name": "name " * 50, "found": 10}, "memorisation": {"says": "word " * 100}}
    assert max(map(len, "\n".join(lines_of(long)).splitlines())) <= WIDTH


def test_other_packages_stand_beside_our_values() -> None:
    row = {"metric": "fid", "package": "torch-fidelity", "ours": 12.34567, "theirs": 12.34568}
    row |= {"seconds": (0.51, 2.0), "megabytes": (100.0, 380.0), "differs": False}
    wrong = row | {"metric": "density", "package": "prdc", "theirs": 3.0, "differs": True}
    lines = "\n".join(lines_of({**RESULT, "witnesses": [row, wrong]})).splitlines()
    assert lines[-3:] == [
        "the same features                   rtm       theirs           s            MB",
        "fid        torch-fidelity       12.3457      12.3457    0.5, 2.0      100, 380",
        "density    prdc                 12.3457            3    0.5, 2.0      100, 380  differs",
    ]
