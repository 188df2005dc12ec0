"""The stages of DVC: which jobs each of them records, by which files, and the keys of params/ that they read."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rtm.config import Config, Experiment
from rtm.config.classes import source_of
from rtm.config.loading import PARAMS, TRIALS, sections
from rtm.lineage.code import present, short_hash
from rtm.stages.base import Job, upstream
from rtm.stages.graph import jobs
from rtm.stages.summary import Summary

DRAWN = ("figure", "gallery")  # one stage of DVC makes all figures of a scale, and the galleries that they show
SECTIONS = {"table": "tables", "figure": "figures", "dataset": "datasets", "protocol": "protocols"}  # of params/
KEPT: dict[str, Any] = {"persist": True}  # DVC does not delete an output before its stage runs
Keys = dict[str, list[str]]  # the keys of params/ that a stage reads, by section
Outs = dict[str, dict[str, Any]]  # outs, metrics and plots: the options of each path


@dataclass(frozen=True)
class DvcStage:
    name: str
    jobs: list[Job]  # whose results it records
    targets: list[str]  # of Snakemake
    deps: list[Path]
    keys: Keys = field(default_factory=dict)
    outs: Outs = field(default_factory=dict)

    @property
    def code(self) -> str:
        """A hash of the code behind its jobs; results of other stages are dependencies of their own."""
        hashes = {present().root(job.code) for job in self.jobs}
        return short_hash(*sorted(hashes))

    def is_made(self) -> bool:
        return all(job.receipt.exists() for job in self.jobs)

    def makes(self, deps: Iterable[Path]) -> bool:
        """Whether it makes one of these files."""
        made = {Path(path) for outs in self.outs.values() for path in outs}
        return not made.isdisjoint(deps)


class ScaleStages:
    """The stages of one scale. `in_git` are jobs whose receipts git has, because the paper reads them, too."""

    def __init__(self, config: Config, in_git: set[str]) -> None:
        self.config = config
        self.graph = list(jobs(config).values())
        self.files = sections(config.scale_name, PARAMS)[1]
        root = config.scale.root
        self.name = stage_name(root)
        self.is_trial = root.startswith(f"{TRIALS}/")
        self.cached = not config.scale.in_git
        self.shared = self._shared(in_git)
        self.owners = _owners(self.graph)

    def _shared(self, in_git: set[str]) -> list[Job]:
        """The jobs without an experiment that neither git nor data.dvc keeps: networks, the images of a trial."""
        if not self.name or not self.cached:
            return []
        measured = [job for job in self.graph if "experiment" in job.names]
        ours = [job for job in upstream(measured) if "experiment" not in job.names]
        return [job for job in ours if job.id not in in_git and not _is_top_dataset(job)]

    def chosen(self, names: set[str], whole: bool) -> list[DvcStage]:
        """The stages to list: all, or those that are listed or made, and those that they read."""
        every = list(self.stages())
        made = {stage.name for stage in every if stage.is_made()}
        if self.name and self.cached:  # DVC keeps it: all or nothing, from its first experiment on
            is_begun = self.name in names or not made.isdisjoint(self.config.experiments)
            return every if whole or is_begun else []
        wanted = [stage for stage in every if whole or stage.name in names | made]
        deps = [path for stage in wanted for path in stage.deps]
        return [stage for stage in every if stage in wanted or stage.makes(deps)]

    def stages(self) -> Iterator[DvcStage]:
        if self.shared:
            datasets = {job.names["dataset"] for job in upstream(self.shared) if "dataset" in job.names}
            keys = {"datasets": sorted(datasets)}
            yield self.stage(self.named("images"), self.shared, [], keys)
        for experiment in self.config.experiments.values():
            yield self.experiment_stage(experiment)
        reports = list(self.reports())
        yield from reports
        if self.name:
            yield self.whole_stage(reports)

    def named(self, *words: str) -> str:
        """The name of a stage that other scales have, too: demo_figures."""
        return "_".join([self.name, *words] if self.name else words)

    def stage(self, name: str, recorded: list[Job], deps: list[Path], keys: Keys) -> DvcStage:
        """A stage that records these jobs. Snakemake gets those that no other job reads, and those that DVC keeps."""
        read = {before.id for job in recorded for before in job.inputs}
        wanted = [job for job in recorded if job.id not in read or self.keeps_bytes(job)]
        outs: Outs = {"outs": {}, "metrics": {}, "plots": {}}
        ids = {job.id for job in recorded}
        for job in recorded:
            for key, path in job.outputs.items():
                kind = job.stage.compared.get(key, "outs")
                options = self.options(job, path, kind)
                if options is not None:
                    outs[kind][str(self.place(path, job, ids))] = options
            if self.cached:
                outs["outs"][str(self.place(job.receipt, job, ids))] = KEPT
        return DvcStage(name, recorded, [str(job.first) for job in wanted], deps, keys, outs)

    def keeps_bytes(self, job: Job) -> bool:
        return job.stage.keeper == "dvc" and self.options(job, job.first, "outs") is not None

    def options(self, job: Job, path: Path, kind: str) -> dict[str, Any] | None:
        """How DVC keeps a file; None if it does not."""
        scale = self.config.scale
        small = KEPT if self.cached else KEPT | {"cache": False}
        if job.keeper == "nobody":
            return None
        if kind == "plots":
            return small | {"x": "step", "y": "loss"}
        if kind == "metrics":
            return small
        if job.stage.keeper == "dvc":
            is_kept = scale.kept is None or job.names.get("experiment") in scale.kept
            remote = {"remote": scale.remote} if scale.remote else {}
            return KEPT | remote if is_kept else None
        is_report = "experiment" not in job.names and path == job.first
        return small if self.cached or is_report else None  # git keeps the others

    def place(self, path: Path, job: Job, ids: set[str]) -> Path:
        """The folder of a file, if all files there are of this stage and of the recorded jobs; otherwise the file."""
        there = self.owners[path.parent]
        is_own = all(each.stage is job.stage and each.id in ids for each in there)
        return path.parent if is_own else path

    def experiment_stage(self, experiment: Experiment) -> DvcStage:
        """An experiment, from training to summary."""
        own = [job for job in self.graph if job.names.get("experiment") == experiment.name]
        measured = [job for job in own if job.stage.name not in DRAWN]
        deps = [job.receipt for job in self.shared[:1]]  # one receipt is enough to fix the order of the stages
        deps += _outside(experiment)
        return self.stage(experiment.name, measured, deps, self.keys_of(experiment))

    def keys_of(self, experiment: Experiment) -> Keys:
        section = self.config.scale.experiments
        entry = getattr(self.config.params, section)[experiment.name]
        decoder = experiment.recipe.decoder
        return {
            section: [experiment.name],
            "recipes": [entry.recipe],
            "mappers": [entry.mapper],
            "decoders": [decoder] if decoder else [],
            "datasets": [name for name in (experiment.dataset_name, experiment.dataset.of) if name],
            "protocols": list(experiment.recipe.evaluation.protocols),
        }

    def reports(self) -> Iterator[DvcStage]:
        """A stage for each table and for what a new stage makes of a whole scale; one for all figures."""
        for job in self.graph:
            is_of_scale = "experiment" not in job.names and job.stage.folder == "root"
            if is_of_scale and job.keeper != "nobody" and job.stage.name not in DRAWN:
                yield self.report_stage(job)
        figures = [job for job in self.graph if job.stage.name == "figure"]
        if figures:
            yield self.figures_stage(figures)

    def report_stage(self, job: Job) -> DvcStage:
        keys: Keys = {}
        for part, name in job.names.items():
            if part in SECTIONS:
                keys[SECTIONS[part]] = [name]
        name = self.named(job.stage.name, *job.names.values())
        if job.stage.name == "table":
            keys["published"] = self.config.params.tables[job.name].constants()
            name = job.name
        return self.stage(name, [job], _summaries([job]), keys)

    def figures_stage(self, figures: list[Job]) -> DvcStage:
        """One stage for all figures and their galleries: Snakemake draws only the stale ones."""
        read = {job.id: job for figure in figures for job in figure.inputs}
        galleries = [job for job in read.values() if job.stage.name == "gallery"]
        if self.config.scale.kept is not None:
            galleries = []  # they are drawn again
        keys = {"figures": [job.names["figure"] for job in figures]}
        return self.stage(self.named("figures"), [*figures, *galleries], _summaries(figures), keys)

    def whole_stage(self, reports: list[DvcStage]) -> DvcStage:
        """The stage with the scale's name: all its reports."""
        recorded = [job for stage in reports for job in stage.jobs if job.stage.name != "gallery"]
        deps = [path for stage in reports for path in _shown(stage)]
        targets = [self.name]
        if self.is_trial:  # no rule has its name
            targets = [str(job.first) for job in recorded]
        return DvcStage(self.name, recorded, targets, deps)


def _is_top_dataset(job: Job) -> bool:
    """Whether it is a dataset in data/: git has its receipt."""
    return job.stage.name == "dataset" and not job.root


def stage_name(root: str) -> str:
    """DVC's name for a scale or a trial, for example try-cats, because names in DVC have no slash."""
    return root.replace("/", "-")


def _owners(graph: Iterable[Job]) -> dict[Path, set[Job]]:
    """The jobs that have files in a folder, or below it."""
    owners: dict[Path, set[Job]] = defaultdict(set)
    for job in graph:
        for path in (*job.outputs.values(), job.receipt):
            for folder in path.parents:
                owners[folder].add(job)
    return owners


def _shown(stage: DvcStage) -> list[Path]:
    """A table, or the folder of all figures."""
    first = stage.jobs[0]
    return [first.first.parent if first.stage.name == "figure" else first.first]


def _summaries(reports: Iterable[Job]) -> list[Path]:
    """The summaries of all experiments that the reports read."""
    measured = [before for job in reports for before in job.inputs if "experiment" in before.names]
    names = {(before.config, before.names["experiment"]) for before in measured}
    return sorted(Summary().path(config, "metrics", experiment=name) for config, name in names)


def _outside(experiment: Experiment) -> list[Path]:
    """The files or packages of this repository, outside of rtm/, whose classes params/ names."""
    here = Path.cwd()
    places = set()
    for name in experiment.outside:
        file = source_of(name)
        is_package = (file.parent / "__init__.py").exists()
        place = file.parent if is_package else file
        if place.is_relative_to(here) and not name.startswith("rtm."):
            places.add(place.relative_to(here))
    return sorted(places)
