"""results/<experiment>/metrics.json has the mean and standard deviation over the seeds. Other files are refused."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import fake_results
from support.reports import DEMO, PAPER

from rtm.config import Config
from rtm.core.errors import UserError
from rtm.core.files import write_json
from rtm.core.readers import read_json
from rtm.reports.summary import read_summary, summarise, write_summary
from rtm.stages.evaluate import Evaluate
from rtm.stages.summary import Summary

NAME = "digits_rtm"


@pytest.fixture
def config(tmp_path: Path) -> Config:
    config = DEMO.at(tmp_path)
    sections = {
        "digits": {
            "fid": 70.0,
            "is": 8.0,
            "is_std": 0.3,
            "recall": 0.7,
        },
        "digits_H4": {"fid": 90.0},
        "latency": {"time_ms": 0.5, "mapper_parameters": 1234},
        "latency_H4": {"time_ms": 0.4},
    }
    fake_results.write_results(config, NAME, sections, spread=0.2)
    return config


def change(config: Config, **changes: Any) -> None:
    """Change the file of the second seed."""
    path = Evaluate().path(
        config,
        "metrics",
        experiment=NAME,
        protocol="digits",
        seed=1,
    )
    write_json(path, read_json(path) | changes)


def metrics(config: Config, seed: int) -> dict[str, dict[str, float]]:
    values: dict[str, dict[str, float]] = read_json(
        Evaluate().path(
            config,
            "metrics",
            experiment=NAME,
            protocol="digits",
            seed=seed,
        )
    )["metrics"]
    return values


def test_mean_and_sample_deviation_over_the_seeds(config: Config) -> None:
    summary = read_json(Summary().path(config, "metrics", experiment=NAME))
    for section, variant in (("digits", "native"), ("digits_H4", "H4")):
        values = [metrics(config, seed)[variant]["fid"] for seed in (0, 1, 2)]
        assert summary[section]["fid"] == pytest.approx(np.mean(values))
        assert summary[section]["fid_std"] == pytest.approx(np.std(values, ddof=1))
    assert summary["latency"] == {"time_ms": 0.5, "mapper_parameters": 1234}
    assert summary["latency_H4"] == {"time_ms": 0.4}
    with open(Summary().path(config, "sweep", experiment=NAME), encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["H"] for row in rows] == ["4", "8", "16", "32"]
    assert [float(row["digits.fid"]) for row in rows] == [summary[f"digits_H{row['H']}"]["fid"] for row in rows]
    assert summary.pop("seeds") == 3
    assert all(isinstance(value, int | float) for section in summary.values() for value in section.values())


def test_spreads_over_splits_seeds_and_samples_are_told_apart(config: Config) -> None:
    digits = summarise(config, NAME)["digits"]
    assert digits["is_splits_std"] == pytest.approx(0.3)
    assert digits["is_std"] == pytest.approx(np.std([6.4, 8.0, 9.6], ddof=1))
    assert digits["fid_sampling"] == pytest.approx(np.mean([0.1 * 56, 0.1 * 70, 0.1 * 84]))
    assert digits["kid_se"] == pytest.approx(0.0001)
    assert "kid_std" in digits
    assert not {"kid_se_std", "fid_floor_std", "fid_floor_sampling"} & digits.keys()


def test_one_seed_has_no_deviation(tmp_path: Path) -> None:
    config = PAPER.at(tmp_path)
    fake_results.write_results(config, "shells_imle_rtm", {"rs_imle": {"fid": 24.48}})
    section = summarise(config, "shells_imle_rtm")["rs_imle"]
    assert section["fid"] == 24.48
    assert "fid_std" not in section


@pytest.mark.parametrize(("key", "value"), [("protocol", "paper"), ("experiment", "digits_mlp8"), ("seed", 7)])
def test_a_file_of_something_else_is_refused(config: Config, key: str, value: object) -> None:
    change(config, **{key: value})
    with pytest.raises(UserError, match=f"seed1.json is of {key}"):
        summarise(config, NAME)


def test_a_missing_seed_is_named_and_leaves_no_summary_to_read(config: Config) -> None:
    assert read_summary(config, NAME) == read_json(Summary().path(config, "metrics", experiment=NAME))
    Evaluate().path(
        config,
        "metrics",
        experiment=NAME,
        protocol="digits",
        seed=2,
    ).unlink()
    assert read_summary(config, NAME) is None
    with pytest.raises(UserError, match=r"digits/seed2\.json does not exist; make it first"):
        write_summary(config, NAME)


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        (("H4", "recall"), "different metrics"),
        (("H4",), r"lacks H4; make it again with `snakemake --cores all -f -- .*seed0\.json`"),
    ],
)
def test_seeds_that_contradict_each_other_are_refused(config: Config, missing: tuple[str, ...], message: str) -> None:
    values: Any = metrics(config, 1)
    place = values
    for key in missing[:-1]:
        place = place[key]
    del place[missing[-1]]
    change(config, metrics=values)
    with pytest.raises(UserError, match=message):
        read_summary(config, NAME)
