"""Numbers are written as their column says."""

import pytest
from support.reports import PAPER

from rtm.config.reports import CellSpec, Column
from rtm.reports.cells import Cell


@pytest.mark.parametrize(
    ("options", "value", "text"),
    [
        ({}, 0.12345, "0.123"),
        ({"digits": 1}, 1234.56, "1,234.6"),
        ({"times": 1000.0, "digits": 1}, 0.005, "5.0"),
        ({"significant": 2, "unit": "M"}, 1_234_000, "1.2M"),
        ({"significant": 2, "unit": "k"}, 33_280, "33k"),
        ({"significant": 3}, 0.0, "0.00"),
        ({"digits": 1, "whole_from": 100}, 99.9, "99.9"),
        ({"digits": 1, "whole_from": 100}, 123.4, "123"),
    ],
)
def test_a_number_is_written_as_its_column_says(options: dict[str, float | str], value: float, text: str) -> None:
    heading = Column.model_validate({"title": "x", "metric": "fid", **options})
    cell = Cell(CellSpec(row="x", column="fid"), heading, PAPER.tables["tab_cifar10"])
    assert cell.write(value) == text
