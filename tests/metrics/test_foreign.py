"""Images that others generated are measured like ours and shown as theirs, with a chain."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file
from support import ROOT, fake_results

from rtm.cli import main as cli
from rtm.cli.lineage import lineage
from rtm.config import Config, load
from rtm.core.errors import UserError
from rtm.core.files import digest_of_all, read_json, write_json
from rtm.core.layout import Layout
from rtm.data.prepare import prepare
from rtm.lineage.job import Job
from rtm.lineage.recording import recorded
from rtm.metrics.evaluate import write_reference
from rtm.metrics.foreign import write_foreign
from rtm.models.digits import DigitClassifier
from rtm.page.html import write_page
from rtm.pipeline.graph import jobs
from rtm.reports import latex
from rtm.reports.cells import build
from rtm.reports.tables import render_table

NAME = "others_digits"


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The demo with a row for images that somebody else generated: 1,797 pictures of noise."""
    shutil.copytree(ROOT / "params", tmp_path / "params")
    monkeypatch.chdir(tmp_path)
    np.save("others.npy", np.random.default_rng(0).integers(0, 256, (1797, 8, 8, 3), np.uint8))
    entry = {"source": "Somebody's noise", "samples": "others.npy", "sha256": digest_of_all(Path("others.npy"))}
    change("foreign", {NAME: {**entry, "dataset": "digits", "protocols": ["digits"]}})
    tables = yaml.safe_load(Path("params/tables.yaml").read_text())["tables"]
    tables["tab_digits"]["groups"][0]["rows"].append({"title": "Noise", "foreign": NAME})
    change("tables", tables)
    return tmp_path


def change(section: str, value: Any) -> None:
    Path(f"params/{section}.yaml").write_text(yaml.safe_dump({section: value}, sort_keys=False))


def measured(config: Config, layout: Layout) -> Job:
    """Run the job that measures the images, after the jobs that it needs."""
    job = jobs(config)[f"foreign/{NAME}/digits"]
    for before in job.upstream():
        with recorded(before):
            if before.id == "fetch/digits":
                prepare("digits", config.params.datasets["digits"], layout.images("digits"))
            elif before.stage == "fetch":
                torch.manual_seed(0)
                layout.weights("digit_classifier").parent.mkdir(exist_ok=True)
                save_file(DigitClassifier().state_dict(), layout.weights("digit_classifier"))
            elif before.stage == "reference":
                write_reference(config, layout, "digits", "digits")
            else:
                write_foreign(config, layout, NAME, "digits")
    return job


def test_they_are_measured_and_marked_and_have_a_chain(capsys: pytest.CaptureFixture[str]) -> None:
    config = load("demo")
    layout = config.layout
    job = measured(config, layout)
    assert job.id in [before.id for before in jobs(config)["table/tab_digits"].inputs]
    for name in config.experiments:
        fake_results.write_results(config, layout, name, {})
    sheet = render_table(config, layout, "tab_digits")
    cells = {cell.column: cell for cell in sheet.cells if cell.row == NAME}
    metrics = read_json(layout.foreign(NAME, "digits"))["metrics"]
    assert cells["fid"].value == metrics["fid"] > 0 and cells["fid"].state == "evaluated"
    assert cells["time_ms"].state == "unreported"
    assert latex.cell(cells["fid"]).endswith(r"$^\ddagger$")
    assert "measured here on images that others generated" in layout.table("tab_digits").read_text()
    for suffix, shown in ((".md", f"**{cells['fid'].text}**‡"), (".csv", "evaluated,Somebody's noise")):
        assert shown in layout.table("tab_digits", suffix).read_text()
    lineage(["demo/reports/tab_digits.tex"], cell=[NAME, "fid"])
    chain = capsys.readouterr().out
    assert "images that others generated: Somebody's noise" in chain
    assert "samples     others.npy" in chain and "dataset     data/digits/images.npy" in chain and "≠" not in chain
    page = write_page(config, layout, []).read_text()
    assert f'id="chain-{NAME}-digits"' in page and f"{cells['fid'].text}</span>‡" in page
    Path("others.npy").write_bytes(b"other")
    lineage(["demo/reports/tab_digits.tex"], cell=[NAME, "fid"])
    assert "others.npy is not what params/foreign.yaml says" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        ("features/digits/digits.safetensors", "features/digits/digits.safetensors is not the recorded one"),
        ("weights/digit_classifier.safetensors", "digit_classifier.safetensors is not the recorded one"),
    ],
)
def test_a_damaged_reference_measures_nothing(
    damaged: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = load("demo")
    measured(config, config.layout)
    monkeypatch.setattr("sys.argv", ["rtm", "evaluate", NAME, "--scale=demo", "--protocol=digits"])
    cli.main()
    assert read_json(config.layout.foreign(NAME, "digits"))["samples"] == 1797
    save_file({name: tensor[:9] for name, tensor in load_file(damaged).items()}, damaged)
    with pytest.raises(SystemExit):
        cli.main()
    assert message in capsys.readouterr().err


def test_any_images_are_measured_from_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = load("demo")
    measured(config, config.layout)
    words = "rtm evaluate others.npy digits --scale demo --protocol digits --samples 300 --json out.json"
    monkeypatch.setattr("sys.argv", words.split())
    cli.main()
    shown, found = capsys.readouterr().out, read_json("out.json")
    assert "off protocol: 300 images instead of 1,797" in shown and f"{found['metrics']['fid']:.3f}" in shown
    assert (found["samples"], found["images"]["found"], found["subset_seed"]) == (300, 1797, 0)
    weights = digest_of_all(config.layout.weights("digit_classifier"))
    assert found["provenance"]["weights"] == {"digit_classifier": weights}
    assert found["provenance"]["environment"]["torch"] and len(found["reference"]["sha256"]) == 64
    monkeypatch.setattr("sys.argv", f"{words} --json demo/results/{NAME}/digits.json".split())
    with pytest.raises(SystemExit):
        cli.main()
    assert "which only its own stages write" in capsys.readouterr().err


def test_numbers_off_protocol_fill_no_table() -> None:
    config = load("demo")
    marked = {"samples": 9, "metrics": {"fid": 1.0}, "off_protocol": ["9 images instead of 1,797"]}
    write_json(config.layout.foreign(NAME, "digits"), marked)
    with pytest.raises(UserError, match=r"digits\.json is off protocol \(9 images .*`rtm evaluate others_digits --pro"):
        build(config, config.layout, "tab_digits")


def test_what_is_not_measured_is_a_gap(workspace: Path) -> None:
    config = load("demo")
    layout = config.layout
    for name in config.experiments:
        fake_results.write_results(config, layout, name, {})
    assert list(build(config, layout, "tab_digits").gaps(layout)) == [NAME]
    with pytest.raises(UserError, match=f"needs results of {NAME}; make them with `snakemake --cores all"):
        render_table(config, layout, "tab_digits")
    render_table(config, layout, "tab_digits", available=True)
    assert f"not measured yet ({NAME})" in layout.table("tab_digits", ".md").read_text()


def test_other_images_than_meant_are_refused(workspace: Path) -> None:
    config = load("demo")
    np.save("others.npy", np.zeros((1797, 8, 8, 3), np.uint8))
    with pytest.raises(UserError, match=r"others\.npy has sha256 [0-9a-f]{64}, but params/foreign\.yaml says"):
        write_foreign(config, config.layout, NAME, "digits")
    Path("others.npy").unlink()
    with pytest.raises(UserError, match=r"others\.npy is not here; put there what .*: Somebody's noise"):
        write_foreign(config, config.layout, NAME, "digits")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"protocols": ["none"]}, "no protocol 'none'"),
        ({"dataset": "none"}, "no dataset 'none'"),
        ({"sha256": "0123"}, "foreign.others_digits.sha256"),
    ],
)
def test_an_entry_that_cannot_be_meant_is_refused(entry: dict[str, Any], message: str) -> None:
    given = yaml.safe_load(Path("params/foreign.yaml").read_text())["foreign"][NAME]
    change("foreign", {NAME: given | entry})
    with pytest.raises(UserError, match=message):
        load("demo")


def test_a_name_is_an_experiments_or_others() -> None:
    entries = yaml.safe_load(Path("params/foreign.yaml").read_text())["foreign"]
    change("foreign", {"digits_rtm": entries[NAME]})
    with pytest.raises(UserError, match="an experiment has this name"):
        load("demo")
