"""Two values of JSON are compared place by place."""

from typing import Any

import pytest

from rtm.lineage.changes import changes


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"a": [1, {"b": "x"}]}, {"a": [1, {"b": "x"}]}, []),
        ({"a": None, "b": {"c": None}}, {"b": {}, "d": None}, []),  # null is the same as absent
        ({"a": 1}, {}, [("a", "1", "absent")]),
        ({}, {"a": "absent"}, [("a", "absent", '"absent"')]),
        (
            {"b": 1, "a": {"c": [0, {"d": None}]}},
            {"b": 2, "a": {"c": [0, {"d": 0}]}},
            [("a.c[1].d", "null", "0"), ("b", "1", "2")],
        ),
        ({"a": [1, 2]}, {"a": [1]}, [("a", "[1, 2]", "[1]")]),  # lists of different lengths are not compared by place
        ({"a": {"b": 1}}, {"a": [1]}, [("a", '{"b": 1}', "[1]")]),
        (1, 2, [("", "1", "2")]),
        ({"a": True, "b": 0}, {"a": 1, "b": 0.0}, [("a", "true", "1"), ("b", "0", "0.0")]),  # equal in Python
        ({"a": 1}, {"a": 1.0}, [("a", "1", "1.0")]),
        ("x" * 58, "x" * 59, [("", '"' + "x" * 58 + '"', '"' + "x" * 56 + "...")]),
    ],
)
def test_each_place_that_differs_has_its_old_and_new_value(
    old: Any, new: Any, expected: list[tuple[str, str, str]]
) -> None:
    assert list(changes(old, new)) == expected
    assert list(changes(new, old)) == [(where, after, before) for where, before, after in expected]
