"""A result prints readable lines, has its numbers as attributes, and fails where another package differs."""

from typing import Any

import pytest

from rtm.core.errors import UserError
from rtm.metrics.result import WIDTH, Result, lines_of

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


def test_numbers_are_attributes() -> None:
    result = Result(RESULT)
    assert result.fid == 12.3456 and result.fid_interval == (11.0, 13.0)
    assert result.as_dict() == RESULT and str(result).startswith("fakes.npy (1,500")
    with pytest.raises(AttributeError, match=r"has fid, .*, not density"):
        _ = result.density


def test_a_difference_to_another_package_is_an_error() -> None:
    row = {"metric": "density", "differs": False}
    Result({**RESULT, "witnesses": [row]}).refuse_differences()
    with pytest.raises(UserError, match="another value of density"):
        Result({**RESULT, "witnesses": [row, row | {"differs": True}]}).refuse_differences()
