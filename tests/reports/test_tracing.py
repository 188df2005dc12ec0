"""Every number has a chain, and the chain names every change."""

import shutil
from pathlib import Path

import pytest
from support import ROOT, fake_results

from rtm.cli.lineage import show_cell
from rtm.config import load
from rtm.core.errors import UserError
from rtm.core.files import write_json, write_text
from rtm.core.readers import read_json
from rtm.lineage.recording import recorded
from rtm.page.html import write_page
from rtm.reports.figures import render_figure
from rtm.reports.tables import render_table
from rtm.stages.base import Job
from rtm.stages.figure import Figure
from rtm.stages.table import Table
from rtm.stages.train import Train

TABLE = "demo/reports/tab_digits_halt_sweep.tex"
ROW = "H8"


@pytest.fixture(autouse=True)
def finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A demo of one table with a receipt for each job; a cluster did its trainings."""
    shutil.copytree(ROOT / "params", tmp_path / "params")
    monkeypatch.chdir(tmp_path)
    config = load("demo")
    fake_results.write_results(config, "digits_rtm", {"digits_H8": {"fid": 90.0}}, spread=0.1)
    for job in Table().job(config, table="tab_digits_halt_sweep").upstream():
        monkeypatch.delenv("SLURM_JOB_ID", raising=False)
        if job.stage.name == "train":
            monkeypatch.setenv("SLURM_JOB_ID", "4711")
        with recorded(job) as recording:
            recording.facts |= {"gpu_hours": 12.5} if job.stage.name == "train" else {}
            write_outputs(job)
            if job.stage.name == "table":
                render_table(config, job.name)
    return tmp_path


def write_outputs(job: Job) -> None:
    for path in job.outputs.values():
        if not path.exists():
            write_text(path, job.id)


def printed(capsys: pytest.CaptureFixture[str], row: str = ROW, column: str = "fid") -> str:
    show_cell([TABLE], row, column)
    return capsys.readouterr().out


def test_a_chain_names_every_link(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys)
    assert text.startswith(f"{TABLE}: {ROW} fid = 90.0 ± 9.0\n")
    kinds = ("table", "metrics", "checkpoint", "reference", "network", "dataset")
    assert all(f"    {kind:<11} " in text for kind in kinds)
    for part in (
        "demo/results/digits_rtm/digits/seed2.json",
        "demo/checkpoints/digits_rtm/seed0.safetensors",
        "data/digits300/images.npy",
        "SLURM job 4711",
        "12.5 GPU-hours",
    ):
        assert part in text
    assert text.count("    parameters ") == text.count("    code ") == text.count("    made ") == 6
    facts = ("    made ", "  Measured", "  seed")
    chain = [line for line in text.split("\n\n", 1)[1].splitlines() if line and not line.startswith(facts)]
    ends = [line for line, after in zip(chain, [*chain[1:], ""], strict=True) if not after.startswith(" " * 16)]
    assert all(line.endswith("unchanged") for line in ends)


def test_every_change_is_named(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint = "demo/checkpoints/digits_rtm/seed0.safetensors"
    metrics = "demo/results/digits_rtm/digits/seed1.json"
    Path(checkpoint).write_text("other weights", encoding="utf-8")
    Path("demo/checkpoints/digits_rtm/seed1.safetensors").unlink()
    Path(metrics).write_text(Path(metrics).read_text("utf-8") + "\n", encoding="utf-8")
    recipes = Path("params/recipes.yaml")
    recipes.write_text(recipes.read_text("utf-8").replace("lr: 4.0e-3", "lr: 5.0e-3"), encoding="utf-8")
    text = printed(capsys)
    assert f"{checkpoint} is not the recorded one" in text
    assert "not here" in text
    assert f"{metrics} is not the recorded one" in text
    assert text.count("training.lr: 0.004 -> 0.005") == 3  # once for each seed


def test_a_number_that_differs_from_the_results_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    config = load("demo")
    fake_results.write_results(config, "digits_rtm", {"digits_H8": {"fid": 70.0}}, spread=0.1)
    text = printed(capsys)
    assert "fid = 70.0 ± 7.0" in text
    assert "demo/evaluate/digits_rtm/digits/seed0 is changed" in text


def test_a_changed_or_deleted_table_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    Path(TABLE).write_text(Path(TABLE).read_text("utf-8").replace("90.0", "9.0"), encoding="utf-8")
    assert f"{TABLE} is not the recorded one" in printed(capsys)
    for suffix in (".tex", ".lineage.json"):
        Path(TABLE).with_suffix(suffix).unlink()
    assert f"{TABLE} is not here" in printed(capsys)
    Path("demo/lineage/table/tab_digits_halt_sweep.json").unlink()
    assert "it was never made" in printed(capsys)


def test_a_number_without_a_chain_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    Path("demo/lineage/train/digits_rtm/seed1.json").unlink()
    with pytest.raises(UserError, match="This number has no chain: demo/train/digits_rtm/seed1 has no receipt"):
        printed(capsys)


def test_rows_and_columns_go_by_their_titles_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "H=8 (native)", "FID") == printed(capsys)
    with pytest.raises(UserError, match="no rows 'H9'; choose one of H4"):
        printed(capsys, "H9")
    with pytest.raises(UserError, match="no columns 'kid'; choose one of fid, is"):
        printed(capsys, ROW, "kid")


def test_others_numbers_have_a_source_and_gaps_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    show_cell(["reports/tab_cifar10.tex"], "cifar10_ddpm", "fid")
    assert "Published, not measured here: the paper's Table 1" in capsys.readouterr().out
    show_cell(["reports/tab_cifar10.csv"], "cifar10_imle_rtm", "fid")
    assert "`snakemake --profile slurm -- reports/tab_cifar10.tex` measures it" in capsys.readouterr().out
    show_cell(["reports/tab_fid.tex"], "average", "fastgan")
    mean = capsys.readouterr().out
    assert "The mean of the published rows above, computed here.\n  obama 41.1\n" in mean
    assert "  shells 120.9" in mean
    with pytest.raises(UserError, match="A cell is one of a table"):
        show_cell(["reports/figures/fig_hero.pdf"], "x", "y")


def test_the_page_shows_the_same(finished: Path) -> None:
    config = load("demo")
    page = write_page(config, []).read_text("utf-8")
    story = page.split('id="chain-digits_rtm-digits"')[1].split("</details>")[0]
    assert story.count("unchanged") == 23
    assert "SLURM job 4711" in story
    assert "inputs changed" not in story
    Path("demo/checkpoints/digits_rtm/seed0.safetensors").write_text("other weights", encoding="utf-8")
    page = write_page(config, []).read_text("utf-8")
    assert "inputs changed" in page.split('id="chain-digits_rtm-digits"')[1].split("</summary>")[0]


@pytest.mark.slow(seconds=3)
def test_outdated_tables_and_figures_are_marked(finished: Path) -> None:
    config = load("demo")
    figure = "fig_digits_sweep"
    with recorded(Figure().job(config, figure=figure)):
        render_figure(config, figure)
    places = ('<article id="tab_digits_halt_sweep">', f'<figure id="{figure}">')

    def shown() -> list[bool]:
        page = write_page(config, []).read_text("utf-8")
        return ["inputs changed" in page.split(place)[1].split("</h3>")[0].split("</figure>")[0] for place in places]

    assert shown() == [False, False]
    recipes = Path("params/recipes.yaml")
    recipes.write_text(recipes.read_text("utf-8").replace("lr: 4.0e-3", "lr: 5.0e-3"), encoding="utf-8")
    config = load("demo")
    assert shown() == [True, True]


def test_rows_of_different_versions_or_gpus_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    config = load("demo")
    assert "different" not in Path(TABLE).with_suffix(".md").read_text("utf-8")
    for seed, gpu in enumerate(("H100", "H100", "A100")):
        path = Train().job(config, experiment="digits_rtm", seed=seed).receipt
        receipt = read_json(path)
        receipt["made"]["environment"] |= {"gpu": gpu, "torch": "2.12.0"}
        write_json(path, receipt)
    render_table(config, "tab_digits_halt_sweep")
    note = (
        "Results were made with different gpu: H100 (digits_rtm seed 0, digits_rtm seed 1); A100 (digits_rtm seed 2)."
    )
    assert note in Path(TABLE).with_suffix(".md").read_text("utf-8")
    assert "A100, torch 2.12.0" in printed(capsys)
