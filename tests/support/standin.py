"""A repository with the real code, rules, stages and lineage, whose stages only write a few bytes.

Tests of staleness ask which jobs run: every stage's `make` appends its job to a list, and its files are a function of
the values, the code and the files that the job reads.
"""

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from support import ROOT, TESTS, tool_server

EXPERIMENTS = {
    "cifar10_imle_mlp": {"recipe": "cifar10_imle", "mapper": "mlp8"},
    "cifar10_imle_rtm": {"recipe": "cifar10_imle", "mapper": "rtm_16_1"},
    "celebahq_imle_rtm": {"recipe": "celebahq_imle", "mapper": "rtm_16_2", "seeds": [0, 1]},
}
DEMO = {
    "digits_mlp": {"recipe": "digits_imle", "mapper": "digits_mlp8"},
    "digits_rtm": {"recipe": "digits_imle", "mapper": "digits_rtm", "sweep": [4, 8]},
}


def write(path: Path, text: str) -> None:
    """Write a new file, as jobs do, because the old one may be a link into DVC's cache."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(text, "utf-8")


class Repository:
    """A git and DVC repository in its own folder, and the commands that a user would type there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "PYTHONPATH": f"{folder}:{TESTS}",
            "PATH": f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder.parent / "home"),
            "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org",
            "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org",
            "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip

    @classmethod
    def create(cls, folder: Path) -> "Repository":
        for path in ("Snakefile", "dvc.yaml", ".dvcignore", ".gitignore", ".gitattributes"):
            write(folder / path, (ROOT / path).read_text("utf-8"))
        for path in ("workflow", "params", "rtm"):
            shutil.copytree(ROOT / path, folder / path, ignore=shutil.ignore_patterns("__pycache__"))
        devices = (folder / "rtm/training/devices.py").read_text("utf-8")
        write(folder / "rtm/training/devices.py", f"{devices}\n\ndef check_devices(*_):\n    return True\n")
        (folder / "profiles").symlink_to("workflow/profiles")
        (folder / "slurm").symlink_to("workflow/profiles/slurm")
        (folder / "bin").mkdir()
        tool_server.write_client(folder / "bin/rtm", sys.executable, str(Path(__file__)))
        for name in ("snakemake", "dvc"):
            tool_server.write_client(folder / f"bin/{name}")
        write(folder / ".dvc/config", (ROOT / ".dvc/config").read_text("utf-8"))
        write(folder / ".dvc/.gitignore", (ROOT / ".dvc/.gitignore").read_text("utf-8"))
        repository = cls(folder)
        repository.shrink_params()
        repository.run("git init -q -b main")
        repository.run("rtm lineage dvc all")
        repository.commit("start")
        return repository

    def shrink_params(self) -> None:
        columns = [{"title": "FID", "metric": "fid"}]
        table = {"title": "T", "label": "t", "caption": "C", "protocol": "paper", "columns": columns}

        def rows(*names: str) -> list[dict[str, str]]:
            return [{"title": name, "experiment": name} for name in names]

        def scale(root: str, experiments: str, *tables: str) -> dict[str, Any]:
            return {"root": root, "shared": "", "experiments": experiments, "tables": list(tables), "figures": []}

        published = [{"title": "Somebody", "published": "somebody"}, *rows("celebahq_imle_rtm")]
        tables = {
            "tab_cifar10": {**table, "groups": [{"rows": rows("cifar10_imle_mlp", "cifar10_imle_rtm")}]},
            "tab_celebahq": {**table, "groups": [{"rows": published}]},
            "tab_digits": {**table, "protocol": "digits", "groups": [{"rows": rows("digits_mlp", "digits_rtm")}]},
        }
        scales = {"paper": scale("", "experiments", "tab_cifar10", "tab_celebahq") | {"in_git": True}}
        scales["demo"] = scale("demo", "demo", "tab_digits")
        self.dump("experiments", EXPERIMENTS)
        self.dump("demo", DEMO)
        self.dump("figures", {})
        self.dump("published", {"somebody": {"source": "Table 1", "values": {"fid": 2.5}}})
        self.dump("tables", tables)
        self.dump("scales", scales)

    def dump(self, section: str, value: Any) -> None:
        write(self.folder / f"params/{section}.yaml", yaml.safe_dump({section: value}, sort_keys=False))

    def change(self, section: str, edit: Callable[[Any], None]) -> None:
        """Edit a section of params/ in place."""
        path = self.folder / f"params/{section}.yaml"
        content = yaml.safe_load(path.read_text("utf-8"))
        edit(content[section])
        write(path, yaml.safe_dump(content, sort_keys=False))

    def run(self, *command: str, fails: bool = False, **environment: str) -> str:
        """Run a command, given as one text or as words, and return its output. It must fail if and only if `fails` is
        true."""
        words = shlex.split(command[0]) if len(command) == 1 else command
        done = subprocess.run(
            words,
            cwd=self.folder,
            env={**self.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert (done.returncode != 0) == fails, f"{shlex.join(words)}\n{done.stdout}"
        return done.stdout

    def snakemake(self, *targets: str, fails: bool = False) -> str:
        return self.run("snakemake", "--cores", "all", "--", *targets, fails=fails)

    def planned(self, *targets: str) -> list[str]:
        """The rules that a dry run would execute, one word for each job."""
        output = self.run("snakemake", "-n", "--quiet", "host", "--", *(targets or ("all", "demo")))
        if "Nothing to be done" in output:
            return []
        table = output.partition("Job stats:")[2].partition("total")[0]
        rules: list[str] = []
        for rule, count in re.findall(r"^(\w+) +(\d+)$", table, re.MULTILINE):
            rules += [rule] * int(count)
        return sorted(rule for rule in rules if rule not in ("all", "demo"))

    def copy(self, folder: Path) -> "Repository":
        shutil.copytree(self.folder, folder, symlinks=True)
        return Repository(folder)

    def clone(self, folder: Path) -> "Repository":
        """A clone, as another person would get it. DVC's remote is beside both repositories."""
        self.run("git", "clone", "-q", str(self.folder), str(folder))
        return Repository(folder)

    def text(self, path: str) -> str:
        return (self.folder / path).read_text("utf-8")

    def has(self, path: str) -> bool:
        return (self.folder / path).exists()

    def append(self, path: str, text: str) -> None:
        write(self.folder / path, self.text(path) + text)

    def remove(self, *paths: str) -> None:
        """Delete files and folders, if they are there."""
        self.run("rm", "-rf", *paths)

    def commit(self, message: str) -> None:
        self.run("git", "add", "-A")
        self.run("git", "commit", "-q", "--allow-empty", "-m", message)

    def ran(self) -> list[str]:
        """The jobs that ran since the last call."""
        path = self.folder.parent / f"{self.folder.name}.ran"
        jobs = path.read_text("utf-8").splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return sorted(jobs)


def content(job: Any) -> str:
    """A few bytes that depend on everything that the job reads."""
    digest = hashlib.sha256(json.dumps(job.values, sort_keys=True).encode())
    for before in job.inputs:
        for path in before.outputs.values():
            if path.is_file():
                digest.update(path.read_bytes())
    return digest.hexdigest()


def write_outputs(job: Any) -> None:
    text = content(job)
    number = int(text[:6], 16) / 1000
    for path in job.outputs.values():
        if path.suffix == ".json":
            write(path, json.dumps({"digits": {"fid": number}}))
        elif path.name == "sweep.csv":
            write(path, f"H,digits.fid,digits.precision,digits.recall\n4,{number},0.5,0.5\n8,{number / 2},0.5,0.5\n")
        elif path.suffix == ".csv":
            write(path, f"step,loss\n1,{number}\n2,{number / 2}\n")
        else:
            write(path, text)


def make(stage: Any, job: Any, recording: Any, **_: Any) -> None:
    """In place of every stage's `make`."""
    recording.facts["gpus"] = os.environ.get("CUDA_VISIBLE_DEVICES")
    here = Path.cwd()
    with open(f"{here}.ran", "a", encoding="utf-8") as file:
        file.write(f"{job.id}\n")
    if stage.name == "train" and Path("hungry").exists():
        Path("hungry").unlink()
        _memory = bytearray(b"x") * (1300 << 20)  # wait until SLURM notices that it is too much
        time.sleep(600)
    if stage.name == "train" and Path("stop").exists():
        Path("stop").unlink()
        sys.exit(75)  # as a training does before its walltime
    write_outputs(job)


def make_all() -> None:
    """Run every job in this process, as if Snakemake had run them."""
    from rtm.lineage import cache
    from rtm.lineage.recording import recorded
    from rtm.pipeline.dvc import write_code
    from rtm.stages.graph import every_job

    for job in every_job().values():
        with recorded(job):
            write_outputs(job)
        cache.keep(job)
    write_code()


def main(*words: str) -> None:
    """The real command line, with stages that write a few bytes."""
    from rtm.cli.main import main as run
    from rtm.stages import stages

    for stage in stages().values():
        setattr(type(stage), "make", make)  # noqa: B010  (mypy knows methods as constant)
    if words[:1] == ("everything",):
        make_all()
        return
    sys.argv = ["rtm", *words]
    run()


if __name__ == "__main__":
    main(*sys.argv[1:])
