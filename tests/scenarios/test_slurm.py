"""The slurm profile on a real SLURM, started for these tests, with made-up GPUs."""

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
import yaml
from safetensors.torch import load_file
from support import FILES, smoke_workspace, tool_server
from support.slurm_cluster import Cluster, cluster, missing
from support.standin import Repository
from support.trials import NUMBER, with_pictures
from support.waiting import tail, wait_for, wait_for_end
from support.workspace import cloned, copied, environment, run

from rtm.config import load
from rtm.trial import beginning
from rtm.trial.images import survey
from rtm.trial.recipe import Choice, Machine

pytestmark = pytest.mark.slow(seconds=100)
QUICK = ("--slurm-init-seconds-before-status-checks", "1", "--max-status-checks-per-second", "5")
NAME = "shells_imle_rtm"
STEPS = 144
HELD = 4.0  # seconds before a step, while the test waits for something else
CHECKPOINT = Path(f"smoke/checkpoints/{NAME}/seed0.safetensors")


@pytest.fixture(scope="module")
def slurm() -> Iterator[Cluster]:
    if reason := missing():
        if os.environ.get("REQUIRE_SLURM"):
            pytest.fail(reason)
        pytest.skip(reason)
    with cluster() as started:
        yield started


@pytest.fixture(scope="module")
def forked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """An environment where every Snakemake, also inside jobs, is forked from a process that has the imports.

    Signals do not reach such a Snakemake, so a test that ends a job cannot use it.
    """
    folder = tmp_path_factory.mktemp("forked")
    tool_server.write_client(folder / "snakemake")
    with tool_server.tools():
        place = os.environ.pop(tool_server.PLACE)  # only for these tests
        yield {tool_server.PLACE: place, "RTM_TEST_SNAKEMAKE": str(folder / "snakemake")}


def client(environment: dict[str, str], slurm: Cluster) -> dict[str, str]:
    """The environment of a user who submits to the cluster and checks the jobs often."""
    return environment | {
        "SLURM_CONF": slurm.environment["SLURM_CONF"],
        "PATH": f"{slurm.folder / 'bin'}:{environment['PATH']}",
        "PYTHONPATH": f"{environment['PYTHONPATH']}:{FILES / 'quick_polls'}",
        "OMP_NUM_THREADS": "1",
    }


class Site:
    """A folder with the workflow, from which jobs are submitted."""

    def __init__(self, folder: Path, slurm: Cluster, forked: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.slurm = slurm
        self.environment = client(environment(folder), slurm) | (forked or {})

    def submit(self, *targets: object, options: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        command = ["snakemake", "--profile", "slurm", *QUICK, *options, "--", *map(str, targets)]
        with open(self.folder / "output.txt", "ab") as file:
            return subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=file, stderr=file)

    def output(self) -> str:
        """The output of every snakemake here."""
        return (self.folder / "output.txt").read_text("utf-8")

    def progress(self) -> str:
        """The last lines of all logs and outputs, and the queue."""
        logs = [path for scale in ("smoke", "try/*") for path in sorted(self.folder.glob(f"{scale}/logs/**/*.log"))]
        queue = self.slurm.ask("squeue", "--states=all", "-h", "-o", "%i %T %r")
        return "\n".join([*map(tail, logs), tail(self.folder / "output.txt"), queue])

    def until(self, condition: Callable[[], object]) -> None:
        wait_for(condition, self.progress, pause=0.5)  # most conditions ask SLURM

    def end_of(self, process: subprocess.Popen[bytes]) -> int:
        return wait_for_end(process, self.progress)

    def submitted(self) -> list[int]:
        """The numbers of the jobs, in order."""
        return [int(number) for number in re.findall(r"submitted with SLURM jobid (\d+)", self.output())]

    def job(self, number: int) -> str:
        """The state of a job and the reason."""
        return self.slurm.ask("squeue", f"--job={number}", "--states=all", "-h", "-o", "%T %r")

    def update(self, number: int, *changes: str) -> None:
        self.slurm.ask("scontrol", "update", f"JobId={number}", *changes)


def made_of(receipt: Path) -> Any:
    """Where and how a result was made."""
    return json.loads(receipt.read_text("utf-8"))["made"]


class Training(Site):
    """Two processes that train. A file sets their pace, so a test can hold them or let them continue."""

    @classmethod
    def prepare(cls, folder: Path, slurm: Cluster) -> "Training":
        scales = copied(folder) / "params/scales.yaml"
        content = yaml.safe_load(scales.read_text("utf-8"))
        content["scales"]["smoke"]["overrides"]["recipes"]["fewshot_imle"] = {
            "training": {"epochs": STEPS // 6, "save_every": 10_000, "grid_every": 10_000},
            "imle": {"refresh": 4},
            "resources": {"processes": 2},
        }
        scales.write_text(yaml.safe_dump(content, sort_keys=False), "utf-8")
        with chdir(folder):
            smoke_workspace.fetch(load("smoke"), "shells")
        return cls(folder, slurm)

    def slow(self) -> None:
        """A file sets the seconds before each step. The log and the check for a signal come at every second step."""
        loop = self.folder / "rtm/training/loop.py"
        step = "numbers = self.method.step(self.done)"
        often = "LOG_EVERY = 20"
        pause = f"time.sleep(float(Path('pace').read_text()) if self.done < {STEPS - 40} else 5)"  # it never ends early
        text = loop.read_text("utf-8")
        assert step in text
        assert often in text
        slowed = text.replace(step, f"Path('pace').exists() and {pause}; {step}")
        loop.write_text(slowed.replace(often, "LOG_EVERY = 2"), "utf-8")
        self.pace(HELD)

    def pace(self, seconds: float) -> None:
        (self.folder / "pace.new").write_text(str(seconds), "utf-8")
        (self.folder / "pace.new").rename(self.folder / "pace")

    def full_speed(self) -> None:
        (self.folder / "pace").unlink()

    def steps(self) -> list[int]:
        logs = self.folder.glob(f"smoke/runs/{NAME}/*/log.jsonl")
        lines = [line for log in logs for line in log.read_text("utf-8").splitlines()]
        return [json.loads(line)["step"] for line in lines]

    def progress(self) -> str:
        return f"{super().progress()}\nsteps {self.steps()[-5:]}"

    def goes_on(self) -> None:
        """Wait until the training has written more lines into its log."""
        before = len(self.steps())
        self.pace(0.05)
        self.until(lambda: len(self.steps()) > before + 5)
        self.pace(HELD)

    def meets_its_walltime(self, number: int) -> None:
        """The signal comes; the training saves itself and waits in the queue under the same job number."""
        passed = self.slurm.ask("squeue", f"--job={number}", "-h", "-o", "%M")
        minutes = int(passed.split(":")[0])
        self.update(number, f"TimeLimit={minutes + 2}")
        self.until(lambda: self.job(number) == "PENDING BeginTime")

    def starts_again(self, number: int) -> None:
        """Start the job at once, because SLURM would wait for two minutes."""

        def runs() -> bool:
            self.update(number, "StartTime=now", "TimeLimit=6")  # refused while SLURM still cleans up the last slice
            return self.job(number).startswith("RUNNING")

        self.until(runs)

    def stopped_at(self) -> int:
        """The step of the last save, from the job's own log."""
        log = (self.folder / f"smoke/logs/train/{NAME}/seed0.log").read_text("utf-8")
        return int(re.findall(r"saved itself at step (\d+)", log)[0])


@pytest.fixture(scope="module")
def readme(
    slurm: Cluster, forked: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Site, subprocess.Popen[bytes]]]:
    """The README's command in a fresh clone. It runs beside the other tests, because it mostly waits."""
    site = Site(cloned(tmp_path_factory.mktemp("clone")), slurm, forked)
    (site.folder / "bin").mkdir()
    dvc = site.folder / "bin/dvc"
    dvc.write_text("#!/bin/sh\ntouch dvc_was_called\nexit 1\n", "utf-8")
    dvc.chmod(0o755)
    site.environment["PATH"] = f"{dvc.parent}:{site.environment['PATH']}"
    site.environment |= {f"{scheme}_proxy": "http://127.0.0.1:9" for scheme in ("http", "https")}  # no internet
    process = site.submit("smoke/reports/tab_cifar10.tex")
    yield site, process
    process.kill()
    process.wait()


@pytest.mark.usefixtures("readme")
def test_a_training_survives(tmp_path: Path, slurm: Cluster) -> None:
    """A cancelled job, two walltimes, a killed snakemake and its orphan, a lost controller: no bit differs."""
    site = Training.prepare(tmp_path, slurm)
    site.slow()
    first = site.submit(CHECKPOINT)
    site.goes_on()
    before = site.steps()[-1]
    (job,) = site.submitted()
    slurm.ask("scancel", str(job))
    site.until(lambda: len(site.submitted()) == 2)
    assert f"SLURM-job '{job}' failed, SLURM status is: 'CANCELLED'" in site.output()
    assert "saved itself at step" in site.output()  # the end of the job's own log is printed
    second = site.submitted()[-1]
    site.goes_on()
    assert min(site.steps()[-2:]) > before  # not from the beginning
    site.meets_its_walltime(second)
    stops = [site.stopped_at()]
    assert first.poll() is None  # Snakemake still waits
    first.kill()
    first.wait()
    site.starts_again(second)
    again = site.submit(CHECKPOINT)
    site.until(lambda: len(site.submitted()) == 3)
    third = site.submitted()[-1]
    assert f"--dependency=afterany:{second}" in site.output()
    site.goes_on()
    assert site.job(third) == "PENDING Dependency"
    table = run(tmp_path, "rtm", "status", "--scale", "smoke", given=site.environment)
    (row,) = (line for line in table.splitlines() if f"{NAME}/0 " in line)
    assert "running" in row
    with slurm.without_controller():
        site.until(lambda: slurm.unanswered() > 1)
        site.goes_on()
    site.meets_its_walltime(second)
    stops.append(site.stopped_at())
    site.full_speed()
    site.starts_again(second)
    assert site.end_of(again) == 0, site.output()[-5000:]
    assert site.steps() == sorted(site.steps())  # steps never go back, so nothing was lost
    assert 0 < stops[0] < stops[1] < STEPS
    assert_undisturbed(site, tmp_path / "undisturbed")
    made = made_of(tmp_path / f"smoke/lineage/train/{NAME}/seed0.json")
    assert made["slurm_jobs"] == [str(job), str(second)]
    assert made["slices"] == 4


def assert_undisturbed(site: Training, folder: Path) -> None:
    """The weights are bit-equal to the weights of one run of two processes."""
    folder.mkdir()
    whole = Training.prepare(folder, site.slurm)
    run(folder, "rtm", "train", NAME, "--scale", "smoke", given=whole.environment)
    one = load_file(folder / CHECKPOINT)
    other = load_file(site.folder / CHECKPOINT)
    assert one.keys() == other.keys()
    assert all(one[name].equal(other[name]) for name in one)


def test_an_impossible_request_is_refused(tmp_path: Path, slurm: Cluster, forked: dict[str, str]) -> None:
    site = Site(copied(tmp_path), slurm, forked)
    recipes = tmp_path / "params/recipes.yaml"
    asked = "gpus: 4, cpus: 32, mem_gb: 128"
    impossible = "gpus: 16, cpus: 32, mem_gb: 128"
    recipes.write_text(recipes.read_text("utf-8").replace(asked, impossible), "utf-8")
    assert site.end_of(site.submit("reports/tab_cifar10.tex")) == 1
    assert "asks for one node with 16 h100 GPUs, 32 cores and 128 GB, and no node has that" in site.output()
    assert "the largest: 8 GPUs, 64 cores, 500 GB" in site.output()
    assert "submitted" not in site.output()
    assert not (tmp_path / "data").exists()  # the error comes before any fetch


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--default-resources", "slurm_partition=nowhere"], "SLURM has no partition nowhere; set slurm_partition"),
        (
            ["--default-resources", "slurm_partition=closed", "slurm_account=mine"],
            "SLURM refuses slurm_partition closed with slurm_account mine: allocation failure: Invalid account",
        ),
        (["--config", "walltime=5000"], "asks for 5000 minutes, and partition main allows 1440; set walltime=1440"),
    ],
)
def test_what_the_site_cannot_do_is_refused(
    tmp_path: Path, slurm: Cluster, forked: dict[str, str], options: list[str], message: str
) -> None:
    site = Site(copied(tmp_path), slurm, forked)
    assert site.end_of(site.submit("reports/tab_cifar10.tex", options=options)) == 1
    assert message in site.output()
    assert "submitted" not in site.output()
    assert not (tmp_path / "data").exists()


def test_without_a_controller_nothing_is_fetched(tmp_path: Path, slurm: Cluster, forked: dict[str, str]) -> None:
    """The commands of SLURM exist, but no controller answers."""
    site = Site(copied(tmp_path), slurm, forked)
    with slurm.without_controller():
        assert site.end_of(site.submit("reports/tab_cifar10.tex")) == 1
    assert "SLURM does not answer (`sinfo` lists no partition)" in site.output()
    assert "File " not in site.output()
    assert not (tmp_path / "data").exists()


def test_a_clone_submits_and_a_stopped_training_goes_on(tmp_path: Path, slurm: Cluster) -> None:
    """With stand-in jobs: the GPUs of each rule, a controller that is frozen during the first submission, a node that
    ends a job for its memory, and a job that cannot be requeued."""
    finished = Repository.create(tmp_path / "finished")
    finished.run("rtm everything")
    finished.commit("everything")
    clone = finished.clone(tmp_path / "clone")
    for folder in ("data", "weights", "features", "checkpoints"):
        shutil.copytree(finished.folder / folder, clone.folder / folder)
    clone.change("experiments", lambda entries: entries["cifar10_imle_rtm"].update(mapper="rtm_16_2"))
    clone.change("recipes", lambda entries: entries["cifar10_imle"]["resources"].update(mem_gb=1))
    for mark in ("hungry", "stop"):
        (clone.folder / mark).touch()
    slurm.freeze(seconds=13)
    clone.environment = client(clone.environment, slurm)
    output = clone.run("snakemake", "--profile", "slurm", *QUICK, "reports/tab_cifar10.tex")
    assert clone.ran() == [
        "evaluate/cifar10_imle_rtm/paper/seed0",
        "latency/cifar10_imle_rtm",
        "summary/cifar10_imle_rtm",
        "table/tab_cifar10",
        *["train/cifar10_imle_rtm/seed0"] * 3,  # once out of memory, once stopped
    ], output
    assert output.count("SLURM's controller does not answer; the submission is repeated.") == 1
    assert output.count("It ran out of its 1000 MB; the next attempt asks for twice that, or for all of a node.") == 1
    rows = slurm.ask("squeue", "--states=all", "--noheader", "--format=%i %j %m").splitlines()
    numbered = {int(number): facts for number, *facts in map(str.split, rows)}
    names = [numbered[number] for number in sorted(numbered)][-4:]
    assert names[:3] == [["train.cifar10_imle_rtm.0", memory] for memory in ("1000M", "2000M", "2000M")]
    assert output.count("submitted with SLURM jobid") == 4  # no job was submitted twice to the frozen controller
    stages = ["train/cifar10_imle_rtm/seed0", "evaluate/cifar10_imle_rtm/paper/seed0", "latency/cifar10_imle_rtm"]
    stages += ["summary/cifar10_imle_rtm", "table/tab_cifar10"]
    receipts = {stage: made_of(clone.folder / f"lineage/{stage}.json") for stage in stages}
    assert [stage for stage, made in receipts.items() if "slurm_job" in made] == stages[:3]
    assert len({receipts[stage]["slurm_job"] for stage in stages[1:3]}) == 1  # measured in one job
    assert receipts[stages[0]]["gpus"] == "0,1,2,3"  # four H100s and their cores, from params/recipes.yaml
    assert "threads: 32" in output
    assert clone.planned("reports/tab_cifar10.tex") == []


def test_few_jobs_are_submitted(tmp_path: Path, forked: dict[str, str]) -> None:
    """In Snakemake's plan of the smoke scale, each training is one job and all its measurements are one job."""
    given = environment(copied(tmp_path)) | forked
    plan = run(tmp_path, given["RTM_TEST_SNAKEMAKE"], "--profile", "slurm", "-n", "smoke", given=given)
    groups = Counter(re.findall(r"Group job ([a-z]+)", plan))
    trainings = len(re.findall("^rule train:", plan, re.M))
    parts = len(re.findall("^    rule ", plan, re.M))
    assert (trainings, groups, parts) == (40, {"measure": 40, "reference": 6}, 139)


def test_a_trial_as_jobs(tmp_path: Path, slurm: Cluster, forked: dict[str, str]) -> None:
    """The pictures are prepared here, and both trainings are submitted. After that, `rtm` knows that they are done."""
    site = Site(with_pictures(copied(tmp_path)), slurm, forked)
    with chdir(tmp_path):
        source = Path("pictures")
        choice = Choice("small", NUMBER, 32, Machine(2, 0), epochs=2)
        choice, _, sha256 = beginning.prepared(source, survey(source), choice)
        beginning.write(choice, sha256, source, 0.1, {"minutes": None, "epochs": 2, "resolution": 32})
    trained = [f"try/small/checkpoints/small_{mapper}/seed0.safetensors" for mapper in ("mlp", "rtm")]
    assert site.end_of(site.submit(*trained)) == 0, site.output()[-5000:]
    for mapper in ("mlp", "rtm"):
        made = made_of(tmp_path / f"try/small/lineage/train/small_{mapper}/seed0.json")
        assert made["slurm_job"] in map(str, site.submitted())
    words = ("rtm", "try", "pictures", "--name", "small", "--pictures")
    before = {path: (tmp_path / path).stat().st_mtime_ns for path in trained}
    assert "rtm generate try/small/small_rtm" in run(tmp_path, *words, given=site.environment)
    assert before == {path: (tmp_path / path).stat().st_mtime_ns for path in trained}


def test_the_command_of_the_readme(readme: tuple[Site, subprocess.Popen[bytes]]) -> None:
    site, process = readme
    assert site.end_of(process) == 0, site.output()[-5000:]
    assert r"\toprule" in (site.folder / "smoke/reports/tab_cifar10.tex").read_text("utf-8")
    receipts = (site.folder / "smoke/lineage").glob("*/*_imle_*/**/*.json")
    made = {path.parts[-3]: made_of(path) for path in receipts}
    assert all("slurm_job" in each for each in made.values())
    assert made
    assert not (site.folder / "dvc_was_called").exists()


def test_the_doctor_is_a_job(tmp_path: Path, slurm: Cluster, forked: dict[str, str]) -> None:
    """The node's GPUs are made up, so the CPU replaces them. snakemake prints the job's answer."""
    site = Site(copied(tmp_path), slurm, forked)
    assert site.end_of(site.submit("doctor")) == 0
    lines = [line for line in site.output().splitlines() if line.startswith(("yes ", "no  "))]
    answer = {line.split()[1]: line for line in lines}
    assert list(answer) == ["driver", "cpu", "toolkit", "compile", "gloo", "training"]
    assert all(answer[each].startswith("yes") for each in ("cpu", "compile", "gloo"))
    assert "weights/vgg16.safetensors is missing; get it with `rtm fetch vgg16`" in answer["training"]
    assert len(site.submitted()) == 1
