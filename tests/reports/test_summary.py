"""results/<experiment>/metrics.json has the mean and standard deviation over the seeds. Other files are refused."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from support import PARAMS, fake_results

from rtm.config import load
from rtm.core.errors import UserError
from rtm.core.files import read_json, write_json
from rtm.core.layout import Layout
from rtm.reports.cells import read_summary
from rtm.reports.summary import summarise, write_summary

DEMO = load("demo", PARAMS)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path, tmp_path)
    sections = {
        "digits": {"fid": 70.0, "is": 8.0, "is_std": 0.3, "recall": 0.7},
        "digits_H4": {"fid": 90.0},
        "latency": {"time_ms": 0.5, "mapper_parameters": 1234},
        "latency_H4": {"time_ms": 0.4},
    }
    fake_results.write_results(DEMO, layout, "digits_rtm", sections, spread=0.2)
    return layout


def test_mean_and_sample_deviation_over_the_seeds(layout: Layout) -> None:
    summary = read_json(layout.summary("digits_rtm"))
    files = [read_json(layout.metrics("digits_rtm", "digits", seed))["metrics"] for seed in (0, 1, 2)]
    for section, variant in (("digits", "native"), ("digits_H4", "H4")):
        values = [file[variant]["fid"] for file in files]
        assert summary[section]["fid"] == pytest.approx(np.mean(values))
        assert summary[section]["fid_std"] == pytest.approx(np.std(values, ddof=1))
    assert summary["seeds"] == 3
    assert summary["latency"] == {"time_ms": 0.5, "mapper_parameters": 1234}
    assert summary["latency_H4"] == {"time_ms": 0.4}
    with open(layout.sweep("digits_rtm")) as file:
        rows = list(csv.DictReader(file))
    assert [row["H"] for row in rows] == ["4", "8", "16", "32"]
    assert [float(row["digits.fid"]) for row in rows] == [summary[f"digits_H{row['H']}"]["fid"] for row in rows]


def test_the_spread_over_splits_is_not_taken_for_that_over_seeds(layout: Layout) -> None:
    digits = read_json(layout.summary("digits_rtm"))["digits"]
    assert digits["is_splits_std"] == pytest.approx(0.3)
    assert digits["is_std"] == pytest.approx(np.std([6.4, 8.0, 9.6], ddof=1))


def test_half_the_interval_of_one_seed_is_beside_the_spread_over_seeds(layout: Layout) -> None:
    digits = read_json(layout.summary("digits_rtm"))["digits"]
    assert digits["fid_sampling"] == pytest.approx(np.mean([0.1 * 56, 0.1 * 70, 0.1 * 84]))
    assert digits["kid_se"] == pytest.approx(0.0001) and "kid_std" in digits
    assert not {"kid_se_std", "fid_floor_std", "fid_floor_sampling"} & digits.keys()


def test_one_seed_has_no_deviation(tmp_path: Path) -> None:
    config, layout = load("paper", PARAMS), Layout(tmp_path, tmp_path)
    fake_results.write_results(config, layout, "shells_imle_rtm", {"rs_imle": {"fid": 24.48}})
    assert read_json(layout.summary("shells_imle_rtm"))["rs_imle"]["fid"] == 24.48
    assert "fid_std" not in read_json(layout.summary("shells_imle_rtm"))["rs_imle"]


def test_only_numbers(layout: Layout) -> None:
    summary = json.loads(layout.summary("digits_rtm").read_text())
    assert isinstance(summary.pop("seeds"), int)
    assert all(isinstance(value, int | float) for section in summary.values() for value in section.values())


@pytest.mark.parametrize(("key", "value"), [("protocol", "paper"), ("experiment", "digits_mlp8"), ("seed", 7)])
def test_a_file_of_something_else_is_refused(layout: Layout, key: str, value: object) -> None:
    path = layout.metrics("digits_rtm", "digits", 1)
    write_json(path, read_json(path) | {key: value})
    with pytest.raises(UserError, match=f"seed1.json is of {key}"):
        summarise(DEMO, layout, "digits_rtm")


def test_a_missing_seed_is_named(layout: Layout) -> None:
    layout.metrics("digits_rtm", "digits", 2).unlink()
    with pytest.raises(UserError, match=r"digits/seed2\.json does not exist; make it first"):
        write_summary(DEMO, layout, "digits_rtm")


def test_seeds_with_different_metrics_are_refused(layout: Layout) -> None:
    path = layout.metrics("digits_rtm", "digits", 1)
    file = read_json(path)
    del file["metrics"]["H4"]["recall"]
    write_json(path, file)
    with pytest.raises(UserError, match="different metrics"):
        summarise(DEMO, layout, "digits_rtm")


def test_a_missing_variant_is_refused(layout: Layout) -> None:
    path = layout.metrics("digits_rtm", "digits", 1)
    file = read_json(path)
    del file["metrics"]["H4"]
    write_json(path, file)
    with pytest.raises(UserError, match=r"lacks H4; make it again with `snakemake --cores all -f -- .*seed0\.json`"):
        summarise(DEMO, layout, "digits_rtm")


def test_a_summary_that_disagrees_with_its_files_is_refused(layout: Layout) -> None:
    assert read_summary(DEMO, layout, "digits_mlp8") is None
    assert read_summary(DEMO, layout, "digits_rtm") is not None
    path = layout.metrics("digits_rtm", "digits", 0)
    file = read_json(path)
    file["metrics"]["native"]["fid"] -= 10
    write_json(path, file)
    with pytest.raises(UserError, match="does not match the files beside it"):
        read_summary(DEMO, layout, "digits_rtm")
