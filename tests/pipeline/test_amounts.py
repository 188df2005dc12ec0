"""Numbers and sizes in messages."""

import pytest

from rtm.pipeline.amounts import counted, duration, short, space


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1234, "1.23 kB"),
        (999_999, "1 MB"),
        (1e6, "1 MB"),
        (3.4e9, "3.4 GB"),
        (5e12, "5,000 GB"),
    ],
)
def test_sizes_are_short(size: float, shown: str) -> None:
    assert space(size) == shown


def test_one_of_a_thing_is_no_plural() -> None:
    assert [counted(number, "result") for number in (0, 1, 1234)] == ["0 results", "1 result", "1,234 results"]


def test_counts_and_times_are_short() -> None:
    assert [short(count) for count in (7, 1500, 234_567, 1_171_875)] == ["7", "1.5k", "235k", "1.17M"]
    assert [duration(seconds) for seconds in (7, 310, 12000, 1_050_000)] == ["7s", "5m10s", "3h20m", "12d3h"]
