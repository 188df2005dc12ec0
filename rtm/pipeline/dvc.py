"""dvc.yaml from params/: `rtm lineage dvc` writes it, and every DVC stage refuses to run while it is out of date.

An experiment needs no new text here (DVC's foreach follows params/), but DVC cannot read from params/ which
experiments a table names, nor from rtm/ which modules a stage runs.
"""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from rtm.config import Config, load
from rtm.config.loading import PARAMS
from rtm.core.errors import UserError
from rtm.core.files import write_text
from rtm.lineage.fingerprint import PACKAGE, source_files
from rtm.lineage.job import Job, Stage
from rtm.pipeline.graph import jobs

FILE = Path("dvc.yaml")
SEVERAL = 2
SCALES = ("demo", "paper")  # in the order in which `dvc repro` goes through them; smoke is the tests'
HEADER = """\
# Written by `rtm lineage dvc` from params/ and rtm/: change those, then run it.
#
# Each command asks the receipts in lineage/ first: DVC, which compares bytes, may call a stage that is fresh, and then
# records it without running anything. Stale jobs run through Snakemake; SNAKEMAKE_PROFILE=slurm submits them.
"""
SWEPT = ("fid", "precision", "recall")
Stanza = dict[str, Any]  # of dvc.yaml


def render() -> str:
    stages: dict[str, Stanza] = {}
    files: list[str] = []
    plots: list[Stanza] = []
    for scale in SCALES:
        config = load(scale)
        files += map(str, _files_of(config.scale.experiments))
        plots += _sweeps(config)
        stages |= _Stages(config).stages()
    texts = [_dumped({name: stage}, indent=2) for name, stage in stages.items()]
    shown = {"params": list(map(str, _files_of("datasets", "protocols", "published")))}  # by `dvc params diff`
    head = HEADER + _dumped({"vars": files}) + _dumped(shown) + _dumped({"plots": plots})
    return head + "\nstages:\n" + "\n".join(texts)


def write() -> None:
    write_text(FILE, render())


def check() -> None:
    if not FILE.exists() or FILE.read_text() != render():
        raise UserError(f"{FILE} is older than params/ or rtm/; write it anew with `rtm lineage dvc`.")


def _sweeps(config: Config) -> list[Stanza]:
    """Quality and coverage against H, a plot for each experiment, protocol and metric."""
    layout, swept = config.layout, [experiment for experiment in config.experiments.values() if experiment.sweep]
    return [
        {
            f"{experiment.name}: {protocol}.{metric} against H": {
                "x": "H",
                "y": {str(layout.sweep(experiment.name)): column},
            }
        }
        for experiment in swept
        for protocol in experiment.recipe.evaluation.protocols
        for metric in SWEPT
        for column in [f"{protocol}.{metric}"]
    ]


class _Stages:
    """The stages of one scale."""

    def __init__(self, config: Config) -> None:
        self.config, self.layout = config, config.layout
        self.jobs = list(jobs(config).values())
        self.root = f"{config.scale.root}/" if config.scale.root else ""
        self.prefix = f"{config.scale.root}_" if config.scale.root else ""
        self.cached = bool(config.scale.root)  # git keeps the results of the paper alone

    def stages(self) -> dict[str, Stanza]:
        stages = {"train": self.train(), "evaluate": self.evaluate(), "gallery": self.gallery()}
        stages |= {"foreign": self.foreign()} if self.of("foreign") else {}
        stages |= {job.name: self.table(job) for job in self.of("table")}
        stages |= {"figures": self.figures()} if self.of("figure") else {}
        named = {f"{self.prefix}{name}": stage for name, stage in stages.items()}
        return named | ({self.config.scale.root: self.whole()} if self.config.scale.root else {})

    def of(self, *stages: str) -> list[Job]:
        return [job for job in self.jobs if job.stage in stages]

    def train(self) -> Stanza:
        key = "${key}"
        selects = any("selection" in job.params for job in self.of("train"))
        return self.each(
            cmd=f"rtm lineage run {self.root}train/{key}",
            deps=[*_code(self.of("train")), *_files_of("datasets", "decoders", *(["protocols"] if selects else []))],
            params=self.params("recipes.${item.recipe}", "mappers.${item.mapper}"),
            outs=[
                self.out(self.layout.checkpoint(key, 0).parent, cache=True),
                self.out(self.layout.receipt("train", key).with_suffix("")),
            ],
            plots=[self.out(self.layout.curve(key, 0).parent, x="step", y="loss")],
        )

    def evaluate(self) -> Stanza:
        key, receipt = "${key}", self.layout.receipt
        common = sorted(set.intersection(*self.protocols()))
        kept = [*(self.layout.metrics(key, protocol, 0).parent for protocol in common), self.layout.latency(key)]
        kept.append(self.layout.sweep(key))
        receipts = [receipt("evaluate", key).with_suffix(""), receipt("latency", key), receipt("summary", key)]
        return self.each(
            cmd=f"rtm lineage run {self.root}summary/{key}",
            deps=[
                *_code(self.of("reference", "sample", "evaluate", "latency", "summary")),
                *_files_of("protocols"),
                self.layout.checkpoint(key, 0).parent,
            ],
            params=self.params("recipes.${item.recipe}"),
            outs=[self.out(path) for path in [*(kept if self.cached else []), *receipts]],  # git keeps the paper's
            metrics=[self.out(self.layout.summary(key))],
        )

    def gallery(self) -> Stanza:
        key = "${key}"
        return self.each(
            cmd=f"rtm lineage run {self.root}gallery/{key}",
            deps=[*_code(self.of("gallery")), *_files_of("protocols"), self.layout.checkpoint(key, 0).parent],
            params=self.params(),
            outs=[
                self.out(self.layout.gallery(key, 0).parent, cache=True),
                self.out(self.layout.receipt("gallery", key).with_suffix("")),
            ],
        )

    def protocols(self) -> list[set[str]]:
        return [set(experiment.recipe.evaluation.protocols) for experiment in self.config.experiments.values()]

    def each(self, **stage: Any) -> Stanza:
        """A stage for every experiment of params/."""
        return {"foreach": f"${{{self.config.scale.experiments}}}", "do": _texts(**stage)}

    def params(self, *keys: str) -> list[dict[str, list[str]]]:
        """The experiment's entry and what else its stages read by name."""
        overrides = [f"scales.{self.config.scale_name}.overrides"] if self.config.scale.overrides else []
        return _params(f"{self.config.scale.experiments}.${{key}}", *keys, *overrides)

    def table(self, job: Job) -> Stanza:
        kept = job.outputs if self.cached else job.outputs[:1]  # git keeps the others, and the receipt tells them
        return _texts(
            cmd=f"rtm lineage run {job.id}",
            deps=[*_code([job]), *_files_of("protocols", "published"), *self.results([job])],
            params=_params(f"tables.{job.name}"),
            outs=[self.out(path) for path in (*kept, job.receipt)],
        )

    def foreign(self) -> Stanza:
        """All images of others in one stage: Snakemake measures those that are stale."""
        measured = self.of("foreign")
        return _texts(
            cmd=f"rtm lineage run {self.root}foreign",
            deps=[*_code(measured), *_files_of("foreign", "protocols", "datasets")],
            outs=[self.out(path) for job in measured for path in (*job.outputs, job.receipt)],
        )

    def figures(self) -> Stanza:
        """All figures in one stage: Snakemake draws those that are stale."""
        figures = self.of("figure")
        return _texts(
            cmd=f"rtm lineage run {self.root}figure",
            deps=[*_code(figures), *_files_of("figures", "tables", "published"), *self.results(figures)],
            outs=[self.out(figures[0].outputs[0].parent), self.out(figures[0].receipt.parent)],
        )

    def results(self, reports: Iterable[Job]) -> list[Path]:
        """The outs of other stages that reports are made from."""
        return sorted({self.result(before) for job in reports for before in job.inputs})

    def result(self, job: Job) -> Path:
        experiment = str(job.subject.experiment)
        if job.stage is Stage.FOREIGN:
            return job.outputs[0]
        folders = {Stage.TRAIN: self.layout.curve(experiment, 0).parent, Stage.GALLERY: job.outputs[0].parent}
        return folders.get(job.stage, self.layout.summary(experiment))

    def whole(self) -> Stanza:
        """All reports of the scale at once, by its name."""
        tables, figures = self.of("table"), self.of("figure")
        made = [job.outputs[0] for job in tables] + [job.outputs[0].parent for job in figures[:1]]
        stages = " ".join(f"{self.root}{stage}" for stage, of in (("table", tables), ("figure", figures)) if of)
        return _texts(cmd=f"rtm lineage verify {stages}", deps=made)

    def out(self, path: Path, cache: bool | None = None, **plot: str) -> dict[str, "_Flow"]:
        """An output that DVC never deletes before a stage; in its cache, or in git."""
        cached = self.cached if cache is None else cache
        return {str(path): _Flow({"persist": True, **({} if cached else {"cache": False}), **plot})}


class _Flow(dict[str, Any]):
    """A mapping written on one line."""


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(_Flow, lambda dumper, data: dumper.represent_mapping("tag:yaml.org,2002:map", data, True))


def _dumped(value: Any, indent: int = 0) -> str:
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, default_flow_style=False, width=120)
    return "".join(" " * indent + line for line in text.splitlines(keepends=True))


def _texts(deps: Iterable[Path], **stage: Any) -> Stanza:
    return {"cmd": stage.pop("cmd"), "deps": list(map(str, deps)), **stage}


def _code(made: Iterable[Job]) -> list[Path]:
    """The modules that the jobs run; a package by its folder where they run most of it."""
    files = {path for entries in {job.entries for job in made} for path in source_files(entries)}
    used = Counter(Path(*path.parts[:2]) for path in files)
    most = {folder for folder, number in used.items() if number > max(SEVERAL, _modules(folder) / 2)}
    return sorted({next((folder for folder in path.parents if folder in most), path) for path in files})


def _modules(folder: Path) -> int:
    return len(list((PACKAGE.parent / folder).glob("*.py")))


def _params(*keys: str) -> list[dict[str, list[str]]]:
    files: dict[str, list[str]] = {}
    for key in keys:
        (file,) = _files_of(key.split(".")[0])
        files.setdefault(str(file), []).append(key)
    return [{file: read} for file, read in files.items()]


def _files_of(*sections: str) -> list[Path]:
    """The files of sections that stages read whole: DVC hashes a file once, and parses parameters for every stage."""
    texts = {path: path.read_text() for path in sorted(PARAMS.glob("*.yaml"))}
    return [path for path, text in texts.items() if any(re.search(rf"^{name}:", text, re.M) for name in sections)]
