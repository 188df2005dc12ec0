"""A metric is one row: from there it is in tables, figures, notes, the page and the summary."""

from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure as Canvas
from support import fake_results
from support.reports import DEMO, figure

from rtm.config import Config
from rtm.config.catalogue import METRICS, Metric, functions, is_cost, known_metric
from rtm.config.reports import Published, TableEntry
from rtm.core.files import write_json
from rtm.core.readers import read_json
from rtm.page.html import write_page
from rtm.reports import plots
from rtm.reports.sheets import build
from rtm.reports.summary import write_summary
from rtm.stages.evaluate import Evaluate
from rtm.stages.summary import Summary

ROW = Metric("spread", "spread of the features", better="higher", share=True, compute="my_metrics:spread")
COLUMN = {"title": "Spread", "metric": "spread", "better": "higher"}


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    """The demo's digits_rtm, measured with a metric that somebody added."""
    monkeypatch.setitem(METRICS, ROW.name, ROW)
    config = DEMO.at(tmp_path)
    fake_results.write_results(config, "digits_rtm", {}, spread=0.1)
    for seed in config.experiment("digits_rtm").seeds:
        path = Evaluate().path(config, "metrics", experiment="digits_rtm", protocol="digits", seed=seed)
        file = read_json(path)
        for variant, metrics in file["metrics"].items():
            metrics["spread"] = 0.25
            file["intervals"][variant]["spread"] = [0.2, 0.3]
        write_json(path, file)
    write_summary(config, "digits_rtm")
    return config


def test_an_added_metric_is_in_the_summary_and_has_its_function(measured: Config) -> None:
    assert read_json(Summary().path(measured, "metrics", experiment="digits_rtm"))["digits"]["spread"] == 0.25
    assert functions() == ["my_metrics:spread"]


def test_an_added_metric_is_in_tables_and_their_notes(measured: Config) -> None:
    rows = [{"title": "RTM", "experiment": "digits_rtm"}]
    fields = {"title": "x", "label": "x", "caption": "x", "protocol": "digits", "columns": [COLUMN]}
    table = TableEntry.model_validate(fields | {"groups": [{"rows": rows}]}, strict=False)
    sheet = build(measured, "x", table)
    assert [cell.text for cell in sheet.cells] == ["0.250"]
    assert "With other samples of the same model (95 %): spread of the features ± 0.050." in sheet.notes


def test_an_added_metric_is_in_sweeps(measured: Config) -> None:
    canvas = Canvas()
    plots.sweep(canvas, measured, figure("sweep", protocol="digits", metrics=("spread",)), {"digits_rtm": "RTM"})
    assert canvas.axes[0].get_ylabel() == "spread of the features"


def test_an_added_metric_is_on_the_page(measured: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(measured.place)
    untabled = replace(measured, scale=measured.scale.model_copy(update={"tables": (), "figures": ()}))
    page = write_page(untabled, []).read_text("utf-8")
    assert "spread of the features" in page
    assert ">0.250<" in page


def test_an_added_share_has_bounds(measured: Config) -> None:
    with pytest.raises(ValueError, match="spread must lie between 0 and 1"):
        Published(source="x", values={"spread": 2.0})


def test_names_of_metrics_are_checked() -> None:
    with pytest.raises(ValueError, match="there is no metric 'recal'; did you mean recall"):
        known_metric("recal")
    with pytest.raises(ValueError, match="there is no metric 'xyz'; choose one of fid, "):
        known_metric("xyz")
    for name in ("loss", "is_std"):  # curves and errors fill no cell
        with pytest.raises(ValueError, match="there is no metric"):
            known_metric(name)
    assert [name for name in METRICS if is_cost(name)] == ["time_ms", "mapper_parameters", "generator_parameters"]
