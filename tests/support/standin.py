"""A small repository with the real rules, stages and lineage, whose verbs only write a few bytes.

Tests of staleness ask which jobs run: every verb appends its job to a list, and its outputs are a function of the
values, the code and the files that the job reads.
"""

import argparse
import hashlib
import importlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from support import ROOT, TESTS, tool_server

REAL = ("core", "config", "lineage", "pipeline")  # rooms, and modules of others
REAL_MODULES = ["__init__", "cli/__init__", "cli/lineage", "cli/runs", "cli/store"]
REAL_MODULES += ["methods/__init__", "methods/registry", "models/registry", "reports/status"]
REAL_MODULES += ["training/__init__"]
FUNCTION = "def {name}():\n    own = '{name}'  # no two stand-ins are one definition\n    return 1\n\n\n"
STUBS = {  # module: the names that its code uses, and the functions that the pipeline names as entries
    "models/mappers": ("", ["refine", "MLPMapper", "RTM", "Attention"]),
    "models/decoders": ("", ["ConvNeXtBranch", "ResidualBranch"]),
    "models/generator": ("", ["build_generator"]),
    "models/stylegan2/generator": ("", ["build_generator"]),
    "training/assembly": ("from rtm.models.mappers import refine\n", ["train"]),
    "training/monitor": ("", ["looks", "selection"]),
    "methods/imle/method": ("from rtm.models.mappers import refine\n", ["ImleMethod"]),
    "methods/stylegan2/method": ("", ["StyleGAN2Method"]),
    "metrics/sampling": ("", ["write_samples"]),
    "metrics/latency": ("", ["measure_latency"]),
    "metrics/gallery": ("", ["write_gallery"]),
    "models/digits": ("", ["train_digit_classifier"]),
    "data/datasets": ("", ["Images"]),
    "data/prepare": ("", ["prepare", "_subset"]),
    "data/weights": ("", ["convert"]),
    "metrics/evaluate": ("", ["write_reference", "write_metrics", "extractor_of"]),
    "metrics/foreign": ("", ["write_foreign"]),
    "reports/summary": ("", ["write_summary"]),
    "reports/tables": ("", ["render_table"]),
    "reports/figures": ("", ["render_figure"]),
    "page/html": ("", ["write_page"]),
}
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
    path.write_text(text)


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
            write(folder / path, (ROOT / path).read_text())
        for path in ("workflow", "params", *(f"rtm/{room}" for room in REAL)):
            shutil.copytree(ROOT / path, folder / path)
        for name in REAL_MODULES:
            write(folder / f"rtm/{name}.py", (ROOT / f"rtm/{name}.py").read_text())
        for module, (uses, functions) in STUBS.items():
            body = "".join(FUNCTION.format(name=name) for name in functions)
            used = "print(refine())\n" if uses else ""
            write(folder / f"rtm/{module}.py", f"{uses}\n\n{body}{used}")
        write(folder / "rtm/pipeline/devices.py", "def check_devices(*_):\n    return True\n")
        write(folder / "rtm/reports/templates/table.tex.j2", "a table\n")
        write(folder / "rtm/page/web/page.html.j2", "a page\n")
        (folder / "profiles").symlink_to("workflow/profiles")
        (folder / "slurm").symlink_to("workflow/profiles/slurm")
        (folder / "bin").mkdir()
        tool_server.write_client(folder / "bin/rtm", sys.executable, str(Path(__file__)))
        for name in ("snakemake", "dvc"):
            tool_server.write_client(folder / f"bin/{name}")
        write(folder / ".dvc/config", (ROOT / ".dvc/config").read_text())
        write(folder / ".dvc/.gitignore", (ROOT / ".dvc/.gitignore").read_text())
        repository = cls(folder)
        repository.shrink_params()
        repository.run("git", "init", "-q", "-b", "main")
        repository.run("rtm", "lineage", "dvc", "all")
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
        content = yaml.safe_load(path.read_text())
        edit(content[section])
        write(path, yaml.safe_dump(content, sort_keys=False))

    def run(self, *command: str, fails: bool = False, **environment: str) -> str:
        """Run a command and return its output. It must fail if and only if `fails` is true."""
        done = subprocess.run(
            command, cwd=self.folder, env={**self.environment, **environment}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode != 0) == fails, f"{' '.join(command)}\n{done.stdout}"
        return done.stdout

    def snakemake(self, *targets: str, fails: bool = False) -> str:
        return self.run("snakemake", "--cores", "all", "--", *targets, fails=fails)

    def planned(self, *targets: str) -> list[str]:
        """The rules that a dry run would execute, one word for each job."""
        output = self.run("snakemake", "-n", "--quiet", "host", "--", *(targets or ("all", "demo")))
        if "Nothing to be done" in output:
            return []
        counts = [line.split() for line in output.split("Job stats:")[1].split("total")[0].splitlines()[3:]]
        rules = [rule for line in counts if line for rule in [line[0]] * int(line[1])]
        return sorted(rule for rule in rules if rule not in ("all", "demo"))

    def copy(self, folder: Path) -> "Repository":
        shutil.copytree(self.folder, folder, symlinks=True)
        return Repository(folder)

    def clone(self, folder: Path) -> "Repository":
        """A clone, as another person would get it. DVC's remote is beside both repositories."""
        self.run("git", "clone", "-q", str(self.folder), str(folder))
        return Repository(folder)

    def commit(self, message: str) -> None:
        self.run("git", "add", "-A")
        self.run("git", "commit", "-q", "--allow-empty", "-m", message)

    def ran(self) -> list[str]:
        """The jobs that ran since the last call."""
        path = self.folder.parent / f"{self.folder.name}.ran"
        jobs = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return sorted(jobs)


def content(job: Any) -> str:
    """A few bytes that depend on everything that the job reads."""
    read = [path.read_bytes() for before in job.inputs for path in before.outputs if path.is_file()]
    read += [
        path.read_bytes()
        for before in job.inputs
        if before.temporary
        for path in sorted(before.outputs[0].glob("*.npy"))
    ]
    return hashlib.sha256(json.dumps(job.params, sort_keys=True).encode() + b"".join(read)).hexdigest()


def make(job: Any) -> None:
    text = content(job)
    number = int(text[:6], 16) / 1000
    for path in job.outputs:
        if job.temporary:
            write(path / "native.npy", text)
        elif path.suffix == ".json":
            write(path, json.dumps({"digits": {"fid": number}}))
        elif path.name == "sweep.csv":
            write(path, f"H,digits.fid,digits.precision,digits.recall\n4,{number},0.5,0.5\n8,{number / 2},0.5,0.5\n")
        elif path.suffix == ".csv":
            write(path, f"step,loss\n1,{number}\n2,{number / 2}\n")
        else:
            write(path, text)


def make_all() -> None:
    """Run every job in this process, as if Snakemake had run them, and write the files that DVC's stages depend on."""
    from rtm.lineage.store import kept
    from rtm.pipeline.dvc import write_fingerprints
    from rtm.pipeline.graph import every_job

    ordered = {before.id: before for job in every_job().values() for before in job.upstream()}
    for job in ordered.values():
        with kept(job):
            make(job)
    for folder in ("samples", "demo/samples"):
        shutil.rmtree(folder)
    write_fingerprints()


def main(verb: str, *words: str) -> None:
    from rtm.cli.lineage import lineage
    from rtm.config import load
    from rtm.core.errors import UserError
    from rtm.lineage.store import kept, served
    from rtm.pipeline.graph import jobs

    try:
        if verb == "everything":
            make_all()
            return
        if verb == "lineage":
            reason = words[words.index("--reason") + 1] if "--reason" in words else None
            lineage([word for word in words if word not in ("--reason", reason)], reason)
            return
        if verb in ("store", "runs"):
            module = importlib.import_module(f"rtm.cli.{verb}")
            module.add_options(parser := argparse.ArgumentParser())
            getattr(module, verb)(parser.parse_args(words))
            return
        options = dict(pairwise(words))
        names = {"evaluate": "{0}/{--protocol}/seed{--seed}", "reference": "{0}/{1}", "report": "index"}
        seeded = names.get(verb, "{0}/seed{--seed}" if "--seed" in words else "{0}")
        job = jobs(load(options["--scale"]))[f"{verb}/{seeded.format(*words, **options)}"]
        if served(job):
            return
        with kept(job) as recording:
            recording.facts["gpus"] = os.environ.get("CUDA_VISIBLE_DEVICES")
            with open(Path.cwd().parent / f"{Path.cwd().name}.ran", "a") as file:
                file.write(f"{job.id}\n")
            if verb == "train" and Path("hungry").exists():
                Path("hungry").unlink()
                _ = bytearray(b"x") * (1300 << 20)  # wait until SLURM notices that it is too much
                time.sleep(600)
            if verb == "train" and Path("stop").exists():
                Path("stop").unlink()
                sys.exit(75)  # as a training does before its walltime
            make(job)
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(*sys.argv[1:])
