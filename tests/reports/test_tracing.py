"""Every number has a chain, and the chain names every change."""

import shutil
from pathlib import Path

import pytest
from support import ROOT, fake_results

from rtm.cli.lineage import lineage
from rtm.config import load
from rtm.core.errors import UserError
from rtm.core.files import read_json, write_json, write_text
from rtm.lineage.job import Job
from rtm.lineage.recording import recorded
from rtm.page.html import write_page
from rtm.pipeline.graph import jobs
from rtm.reports.figures import render_figure
from rtm.reports.tables import render_table

TABLE, ROW = "demo/reports/tab_digits_halt_sweep.tex", "H8"


@pytest.fixture(autouse=True)
def finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A demo of one table with a receipt for each job; a cluster did its trainings."""
    shutil.copytree(ROOT / "params", tmp_path / "params")
    monkeypatch.chdir(tmp_path)
    config = load("demo")
    layout = config.layout
    fake_results.write_results(config, layout, "digits_rtm", {"digits_H8": {"fid": 90.0}}, spread=0.1)
    for job in jobs(config)["table/tab_digits_halt_sweep"].upstream():
        monkeypatch.delenv("SLURM_JOB_ID", raising=False)
        if job.stage == "train":
            monkeypatch.setenv("SLURM_JOB_ID", "4711")
        with recorded(job) as recording:
            recording.facts |= {"gpu_hours": 12.5} if job.stage == "train" else {}
            write_outputs(job)
            if job.stage == "table":
                render_table(config, layout, job.name)
    shutil.rmtree("demo/samples")
    return tmp_path


def write_outputs(job: Job) -> None:
    for path in job.outputs:
        if job.temporary:
            path.mkdir(parents=True)
        elif not path.exists():
            write_text(path, job.id)


def printed(capsys: pytest.CaptureFixture[str], row: str = ROW, column: str = "fid") -> str:
    lineage([TABLE], cell=[row, column])
    return capsys.readouterr().out


def test_a_chain_names_every_link(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys)
    assert text.startswith(f"{TABLE}: {ROW} fid = 90.0 ± 9.0\n")
    kinds = ("table", "summary", "metrics", "samples", "checkpoint", "reference", "network", "dataset")
    assert all(f"    {kind:<11} " in text for kind in kinds)
    for part in (
        "demo/results/digits_rtm/digits/seed2.json",
        "1,497 images, native, H4, H8, H16, H32, halt_0_05_32, halt_0_05_32_shuffled, deleted after use",
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
    assert all(line.endswith(("unchanged", "same parameters")) for line in ends)


def test_every_change_is_named(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint, metrics = "demo/checkpoints/digits_rtm/seed0.safetensors", "demo/results/digits_rtm/digits/seed1.json"
    Path(checkpoint).write_text("other weights")
    Path("demo/checkpoints/digits_rtm/seed1.safetensors").unlink()
    Path(metrics).write_text(Path(metrics).read_text() + "\n")
    recipes = Path("params/recipes.yaml")
    recipes.write_text(recipes.read_text().replace("lr: 4.0e-3", "lr: 5.0e-3"))
    text = printed(capsys)
    assert f"{checkpoint} is not the recorded one" in text
    assert "not here" in text
    assert f"{metrics} changed since the table was rendered" in text
    assert text.count("training.lr: 0.004 -> 0.005") == 3  # once for each seed


def test_a_number_that_differs_from_the_results_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    config = load("demo")
    fake_results.write_results(config, config.layout, "digits_rtm", {"digits_H8": {"fid": 70.0}}, spread=0.1)
    assert "it shows 90.0: render it again" in printed(capsys)


def test_a_changed_or_deleted_table_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    Path(TABLE).write_text(Path(TABLE).read_text().replace("90.0", "9.0"))
    assert f"{TABLE} is not the recorded one" in printed(capsys)
    for suffix in (".tex", ".lineage.json"):
        Path(TABLE).with_suffix(suffix).unlink()
    assert f"{TABLE} is not here" in printed(capsys)
    Path("demo/lineage/table/tab_digits_halt_sweep.json").unlink()
    assert "it has no receipt" in printed(capsys)


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
    lineage(["reports/tab_cifar10.tex"], cell=["cifar10_ddpm", "fid"])
    assert "Published, not measured here: the paper's Table 1" in capsys.readouterr().out
    lineage(["reports/tab_cifar10.csv"], cell=["cifar10_imle_rtm", "fid"])
    assert "`snakemake --profile slurm -- reports/tab_cifar10.tex` measures it" in capsys.readouterr().out
    lineage(["reports/tab_fid.tex"], cell=["average", "fastgan"])
    mean = capsys.readouterr().out
    assert "The mean of the published rows above, computed here.\n  obama 41.1\n" in mean and "  shells 120.9" in mean
    with pytest.raises(UserError, match="A cell is one of a table"):
        lineage(["reports/figures/fig_hero.pdf"], cell=["x", "y"])


def test_the_page_shows_the_same(finished: Path) -> None:
    config = load("demo")
    page = write_page(config, config.layout, []).read_text()
    story = page.split('id="chain-digits_rtm-digits"')[1].split("</details>")[0]
    assert (
        story.count("unchanged") == 24
        and story.count("same parameters") == 3
        and "SLURM job 4711" in story
        and "inputs changed" not in story
    )
    Path("demo/checkpoints/digits_rtm/seed0.safetensors").write_text("other weights")
    page = write_page(config, config.layout, []).read_text()
    assert "inputs changed" in page.split('id="chain-digits_rtm-digits"')[1].split("</summary>")[0]


@pytest.mark.slow(seconds=3)
def test_outdated_tables_and_figures_are_marked(finished: Path) -> None:
    config = load("demo")
    layout, figure = config.layout, "fig_digits_sweep"
    with recorded(jobs(config)[f"figure/{figure}"]):
        render_figure(config, layout, figure)
    places = ('<article id="tab_digits_halt_sweep">', f'<figure id="{figure}">')

    def shown() -> list[bool]:
        page = write_page(config, layout, []).read_text()
        return ["inputs changed" in page.split(place)[1].split("</h3>")[0].split("</figure>")[0] for place in places]

    assert shown() == [False, False]
    recipes = Path("params/recipes.yaml")
    recipes.write_text(recipes.read_text().replace("lr: 4.0e-3", "lr: 5.0e-3"))
    config = load("demo")
    assert shown() == [True, True]


def test_rows_of_different_versions_or_gpus_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    config = load("demo")
    assert "different" not in Path(TABLE).with_suffix(".md").read_text()
    for seed, gpu in enumerate(("H100", "H100", "A100")):
        path = config.layout.receipt("train", f"digits_rtm/seed{seed}")
        receipt = read_json(path)
        receipt["made"]["environment"] |= {"gpu": gpu, "torch": "2.12.0"}
        write_json(path, receipt)
    render_table(config, config.layout, "tab_digits_halt_sweep")
    note = (
        "Results were made with different gpu: H100 (digits_rtm seed 0, digits_rtm seed 1); A100 (digits_rtm seed 2)."
    )
    assert note in Path(TABLE).with_suffix(".md").read_text()
    assert "A100, torch 2.12.0" in printed(capsys)
