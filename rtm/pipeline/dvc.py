"""dvc.yaml from params/: `rtm lineage dvc` writes it, and DVC refuses to run anything while it is out of date.

DVC records, the receipts decide. Each stage depends on one small file: a hash of the parameters and the code of every
job behind the stage. The first stage writes these files, so DVC calls a stage only if something behind it changed.
The stage's command then asks the receipts, and makes the stale results through Snakemake.

dvc.yaml has only stages with results, because `dvc status`, `dvc pull` and `dvc metrics diff` would list every output
of a stage that never ran. The demo is listed as a whole or not at all. A trial is listed, as a whole, only if the user
asked for it, because nobody else has its images. If a scale's results are in git, DVC may keep the checkpoints of only
some experiments (`kept`), and no galleries.
"""

import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from rtm.config import Config, load
from rtm.config.classes import source_of
from rtm.config.loading import PARAMS, TRIALS, trials
from rtm.core.errors import UserError
from rtm.core.files import UNREADABLE, json_digest, write_text
from rtm.lineage.fingerprint import present
from rtm.lineage.job import Job, Stage
from rtm.pipeline.graph import jobs

FILE = Path("dvc.yaml")
FINGERPRINTS = Path("lineage/fingerprints")
SCALES = ("demo", "desk", "paper")  # in the order in which `dvc repro` runs them; smoke is only for tests
HEADER = """\
# Written by `rtm lineage dvc` from params/ and receipts: what is made, of the demo, the desk and the paper.
#
# Each command asks the receipts in lineage/ first: what is fresh is recorded without running anything. Stale jobs run
# through Snakemake; SNAKEMAKE_PROFILE=slurm submits them.
"""
SWEPT = ("fid", "precision", "recall")
MEASURED = (Stage.TRAIN, Stage.EVALUATE, Stage.LATENCY, Stage.SUMMARY)
Stanza = dict[str, Any]  # an entry of dvc.yaml


class Listing(NamedTuple):
    """The stages in dvc.yaml: some by name or, if `whole`, all stages, also of new experiments."""

    names: frozenset[str] = frozenset()
    whole: bool = False


@dataclass(frozen=True)
class DvcStage:
    name: str  # as DVC calls it: train@cifar10_imle_rtm
    jobs: tuple[Job, ...]  # the jobs whose results it records
    stanza: Stanza  # the same for all experiments, with ${key} for the name

    def behind(self) -> dict[str, Job]:
        return {before.id: before for job in self.jobs for before in job.upstream()}

    def fingerprint(self) -> str:
        """A hash of all parameters and code behind the stage. Results of other stages are DVC's own dependencies."""
        facts = {key: [job.params, present().root(job.entries)] for key, job in self.behind().items()}
        return json_digest(facts)

    def is_made(self) -> bool:
        return all(job.receipt.exists() for job in self.jobs)

    def needs(self) -> set[str]:
        """The stages whose results it reads."""
        experiments = {f"train@{job.subject.experiment}" for job in self.behind().values() if job.stage is Stage.TRAIN}
        return experiments | {"foreign" for job in self.behind().values() if job.stage is Stage.FOREIGN}


def render(listing: Listing) -> str:
    """The text of dvc.yaml."""
    scales = _scales(listing)
    stages: dict[str, Stanza] = {}
    files: list[Path] = []
    plots: list[Stanza] = []
    for scale in scales:
        chosen = scale.chosen(listing)
        plots += scale.sweeps(chosen)
        stages |= scale.stanzas(chosen, listing)
        files += _files_of(scale.config.scale.experiments) if scale.is_whole(listing) and not scale.own else []
    if stages:
        stages = {"fingerprints": _fingerprints(scales), **stages}
    texts = [_dumped({name: stage}, indent=2) for name, stage in stages.items()] or ["  {}\n"]
    own = [file for scale in scales for file in scale.own]
    shown = {"params": list(map(str, [*sorted(PARAMS.glob("*.yaml")), *own]))}  # for `dvc params diff`
    head = HEADER + _dumped({"vars": list(map(str, files))}) + _dumped(shown) + _dumped({"plots": plots})
    return head + "\nstages:\n" + "\n".join(texts)


def listed() -> Listing:
    """The stages that dvc.yaml has now; none if it cannot be read."""
    names: set[str] = set()
    whole = False
    with suppress(*UNREADABLE, yaml.YAMLError):
        for name, stage in yaml.safe_load(FILE.read_text())["stages"].items():
            each = stage.get("foreach")
            whole |= name == "train" and isinstance(each, str)
            names |= {f"{name}@{key}" for key in each} if isinstance(each, dict) else {name}
    return Listing(frozenset(names), whole)


def write(whole: bool = False, more: Iterable[str] = ()) -> None:
    """Write dvc.yaml with the listed stages and new results (or with everything, if `whole`), and the trials `more`."""
    before = listed()
    made = {name for scale in _scales(before) for name in scale.made()}
    names = before.names | made | {stage_of(trial) for trial in more}
    write_text(FILE, render(Listing(names, whole or before.whole)))


def stage_of(trial: str) -> str:
    """DVC's name for a trial, for example try-cats, because names in DVC have no slash."""
    return trial.replace("/", "-")


def check() -> None:
    if not FILE.exists() or FILE.read_text() != render(listed()):
        raise UserError(f"{FILE} is older than params/; write it anew with `rtm lineage dvc`.")


def write_fingerprints() -> None:
    """Write the file of every stage, listed or not: the files depend only on params/ and rtm/. Git keeps them, so a
    clone has them before any remote is set up."""
    check()
    shutil.rmtree(FINGERPRINTS, ignore_errors=True)
    for stage in (stage for scale in _scales(listed()) for stage in scale.stages()):
        write_text(FINGERPRINTS / stage.name, f"{stage.fingerprint()}\n")


def _fingerprints(scales: Iterable["_Scale"]) -> Stanza:
    experiments = [experiment for scale in scales for experiment in scale.config.experiments.values()]
    named = {name for each in experiments for name in each.outside}
    own = [file for scale in scales for file in scale.own]
    deps: list[Path | str] = ["params", "rtm", *own, *_outside(named)]
    return _texts("rtm lineage fingerprints", deps, outs=[{str(FINGERPRINTS): {"cache": False}}])


def _outside(names: Iterable[str]) -> list[Path]:
    """The files or packages of this repository, outside of rtm/, whose classes params/ names."""
    files = (source_of(name) for name in names if not name.startswith("rtm."))
    places = {file.parent if (file.parent / "__init__.py").exists() else file for file in files}
    return sorted(place.relative_to(Path.cwd()) for place in places if place.is_relative_to(Path.cwd()))


def _scales(listing: Listing) -> list["_Scale"]:
    named = load().params.scales
    tried = [trial for trial in trials() if stage_of(trial) in listing.names]
    configs = {name: load(name) for name in (*(name for name in SCALES if name in named), *tried)}
    graphs = {name: list(jobs(config).values()) for name, config in configs.items()}
    in_git = {before.id for job in graphs["paper"] if job.subject.experiment for before in job.upstream()}
    return [_Scale(configs[name], graphs[name], in_git) for name in configs]


class _Scale:
    """The stages of one scale."""

    def __init__(self, config: Config, graph: list[Job], in_git: set[str]) -> None:
        self.config, self.layout, self.jobs = config, config.layout, graph
        self.root = f"{config.scale.root}/" if config.scale.root else ""
        self.name = stage_of(config.scale.root)
        is_trial = self.root.startswith(f"{TRIALS}/")
        self.own = [Path(self.root) / "params.yaml"] if is_trial else []  # a trial's parameters are not in params/
        self.prefix = f"{self.name}{'-' if is_trial else '_'}" if self.root else ""
        self.cached = not config.scale.in_git
        self.shared = self._shared(in_git)

    def _shared(self, in_git: set[str]) -> list[Job]:
        """The jobs without an experiment whose receipts are not in git: the embedded digits, the images of a trial."""
        behind = {before.id: before for job in self.jobs if job.subject.experiment for before in job.upstream()}
        common = [job for name, job in behind.items() if not job.subject.experiment and name not in in_git]
        return common if self.root and self.cached else []

    def is_whole(self, listing: Listing) -> bool:
        return listing.whole or self.name in listing.names

    def made(self) -> list[str]:
        """The names of the stages with results. If DVC keeps the scale, its name stands for all of them after its first
        training."""
        every = list(self.stages())
        names = [stage.name for stage in every if stage.is_made()]
        whole = any("@" in name for name in names) if self.cached else len(names) == len(every)
        return [self.name] if self.root and whole else names

    def chosen(self, listing: Listing) -> list[DvcStage]:
        every = list(self.stages())
        if self.is_whole(listing) or (self.root and self.cached):
            return every if self.is_whole(listing) else []
        some = [stage for stage in every if stage.name in listing.names]
        names = {name for stage in some for name in (stage.name, *stage.needs())}
        return [stage for stage in every if stage.name in names]

    def stanzas(self, chosen: list[DvcStage], listing: Listing) -> dict[str, Stanza]:
        stanzas: dict[str, Stanza] = {}
        for stage in chosen:
            group, _, key = stage.name.partition("@")
            if not key:
                stanzas[group] = stage.stanza
            elif self.is_whole(listing) and not (self.own or self.config.scale.kept):
                stanzas[group] = {"foreach": f"${{{self.config.scale.experiments}}}", "do": stage.stanza}
            else:
                stanzas.setdefault(group, {"foreach": {}, "do": stage.stanza})["foreach"][key] = _Flow()
        return stanzas | ({self.name: self.whole()} if self.root and self.is_whole(listing) else {})

    def stages(self) -> Iterator[DvcStage]:
        if self.shared:
            yield self.stage("shared", self.shared, self.shared_stanza())
        for name in self.config.experiments:
            measured = [job for job in self.jobs if job.subject.experiment == name and job.stage in MEASURED]
            kept = self.config.scale.kept is None or name in self.config.scale.kept
            yield self.stage(f"{'train' if kept else 'measure'}@{name}", measured, self.train(kept))
        if foreign := self.of(Stage.FOREIGN):
            yield self.stage("foreign", foreign, self.foreign(foreign))
        for job in self.of(Stage.TABLE):
            yield self.stage(job.name, [job], self.table(job))
        if figures := self.of(Stage.FIGURE):
            galleries = _galleries(figures) if self.config.scale.kept is None else []  # drawn again from checkpoints
            yield self.stage("figures", [*figures, *galleries], self.figures(figures, galleries))

    def stage(self, name: str, behind: Iterable[Job], stanza: Stanza) -> DvcStage:
        return DvcStage(f"{self.prefix}{name}", tuple(behind), stanza)

    def of(self, *stages: Stage) -> list[Job]:
        return [job for job in self.jobs if job.stage in stages]

    def value(self, name: str) -> Path:
        """The file with the fingerprint that a stage depends on."""
        return FINGERPRINTS / f"{self.prefix}{name}"

    def shared_stanza(self) -> Stanza:
        """The stage of the images and all receipts; DVC does not keep weights and features."""
        targets = " ".join(job.id for job in self.shared)
        images = [job.outputs[0].parent for job in self.shared if job.subject.dataset and job.stage is Stage.FETCH]
        outs = self.outs([*images, *_receipts(self.shared)])
        return _texts(f"rtm lineage run {targets}", [self.value("shared")], outs=outs)

    def train(self, kept: bool) -> Stanza:
        """One stage for an experiment, from training to summary: the receipts decide which of its jobs must run."""
        key, layout = "${key}", self.layout
        outs = [self.binary(layout.checkpoint(key, 0).parent)] if kept else []
        if self.cached:
            common = sorted(set.intersection(*self.protocols()))
            results = [layout.metrics(key, protocol, 0).parent for protocol in common]
            folders = [layout.receipt(stage, key).with_suffix("") for stage in (Stage.TRAIN, Stage.EVALUATE)]
            receipts = [layout.receipt(stage, key) for stage in (Stage.LATENCY, Stage.SUMMARY)]
            outs += self.outs([*results, layout.latency(key), layout.sweep(key), *folders, *receipts])
        return _texts(
            f"rtm lineage run {self.root}train/{key} {self.root}summary/{key}",
            [
                self.value(f"{'train' if kept else 'measure'}@{key}"),
                *_receipts(self.shared[:1]),  # one receipt is enough to fix the order of the stages
            ],
            **({"outs": outs} if outs else {}),
            metrics=[self.out(layout.summary(key))],
            plots=[self.out(layout.curve(key, 0).parent, x="step", y="loss")],
        )

    def protocols(self) -> list[set[str]]:
        return [set(experiment.recipe.evaluation.protocols) for experiment in self.config.experiments.values()]

    def table(self, job: Job) -> Stanza:
        kept = [*job.outputs, job.receipt] if self.cached else job.outputs[:1]  # git keeps the others
        deps = [self.value(job.name), *self.results([job])]
        return _texts(f"rtm lineage run {job.id}", deps, outs=self.outs(kept))

    def foreign(self, measured: list[Job]) -> Stanza:
        """One stage for all foreign images: Snakemake measures only the stale ones."""
        kept = [path for job in measured for path in (*job.outputs, *_receipts([job] if self.cached else []))]
        return _texts(f"rtm lineage run {self.root}foreign", [self.value("foreign")], outs=self.outs(kept))

    def figures(self, figures: list[Job], galleries: list[Job]) -> Stanza:
        """One stage for all figures and their galleries: Snakemake draws only the stale ones."""
        receipts = [figures[0].receipt.parent, *(job.receipt.parent for job in galleries)] if self.cached else []
        return _texts(
            f"rtm lineage run {' '.join([f'{self.root}figure', *(job.id for job in galleries)])}",
            [self.value("figures"), *self.results(figures)],
            outs=[
                *(self.binary(job.outputs[0].parent) for job in galleries),
                *self.outs([figures[0].outputs[0].parent, *receipts]),
            ],
        )

    def results(self, reports: Iterable[Job]) -> list[Path]:
        """The outputs of other stages that the reports read."""
        return sorted({self.result(before) for job in reports for before in job.inputs})

    def result(self, job: Job) -> Path:
        return job.outputs[0] if job.stage is Stage.FOREIGN else self.layout.summary(str(job.subject.experiment))

    def whole(self) -> Stanza:
        """The stage with the scale's name: all its reports. Its own output are the definitions behind all receipts."""
        tables, figures = self.of(Stage.TABLE), self.of(Stage.FIGURE)
        made = [job.outputs[0] for job in tables] + [job.outputs[0].parent for job in figures[:1]]
        stages = " ".join(f"{self.root}{stage}" for stage, of in (("table", tables), ("figure", figures)) if of)
        return _texts(f"rtm lineage verify {stages}", made, outs=self.outs([self.layout.code("").parent]))

    def sweeps(self, chosen: list[DvcStage]) -> list[Stanza]:
        """Plots of quality and coverage against H, one for each experiment, protocol and metric."""
        names = {stage.name.partition("@")[2] for stage in chosen}
        swept = [each for each in self.config.experiments.values() if each.sweep and each.name in names]
        return [
            {
                f"{experiment.name}: {protocol}.{metric} against H": {
                    "x": "H",
                    "y": {str(self.layout.sweep(experiment.name)): f"{protocol}.{metric}"},
                }
            }
            for experiment in swept
            for protocol in experiment.recipe.evaluation.protocols
            for metric in SWEPT
        ]

    def outs(self, paths: Iterable[Path]) -> list[dict[str, "_Flow"]]:
        return [self.out(path) for path in paths]

    def binary(self, folder: Path) -> dict[str, "_Flow"]:
        """An output with checkpoints or images, which git never keeps."""
        remote = self.config.scale.remote
        return self.out(folder, cache=True, **({"remote": remote} if remote else {}))

    def out(self, path: Path, cache: bool | None = None, **more: str) -> dict[str, "_Flow"]:
        """An output, in DVC's cache or in git. DVC does not delete it before the stage runs."""
        cached = self.cached if cache is None else cache
        return {str(path): _Flow({"persist": True, **({} if cached else {"cache": False}), **more})}


class _Flow(dict[str, Any]):
    """A mapping that is written on one line."""


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(_Flow, lambda dumper, data: dumper.represent_mapping("tag:yaml.org,2002:map", data, True))


def _dumped(value: Any, indent: int = 0) -> str:
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, default_flow_style=False, width=120)
    return "".join(" " * indent + line for line in text.splitlines(keepends=True))


def _texts(cmd: str, deps: Iterable[Path | str], **stage: Any) -> Stanza:
    return {"cmd": cmd, "deps": list(map(str, deps)), **stage}


def _receipts(made: Iterable[Job]) -> list[Path]:
    return [job.receipt for job in made]


def _galleries(figures: Iterable[Job]) -> list[Job]:
    """The galleries that figures show."""
    shown = {job.id: job for figure in figures for job in figure.inputs if job.stage is Stage.GALLERY}
    return list(shown.values())


def _files_of(*sections: str) -> list[Path]:
    texts = {path: path.read_text() for path in sorted(PARAMS.glob("*.yaml"))}
    return [path for path, text in texts.items() if any(re.search(rf"^{name}:", text, re.M) for name in sections)]
