"""The graph of a scale's jobs, from data to tables. Each job has exactly the values that it reads.

Snakemake's rules, DVC's stages, the command line and `rtm.lineage.receipts` all take the dependencies from here.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, cast, get_args

from rtm.config import Config, Experiment, load
from rtm.config.classes import is_own, source_digest
from rtm.config.experiments import Protocol, Recursive, Resources
from rtm.config.loading import PARAMS, TRIALS, VARIANTS, trials
from rtm.config.reports import Figure, Table
from rtm.config.variants import JOINT, Variant
from rtm.core.errors import UserError
from rtm.lineage.job import Job, Keeper, Stage, Subject
from rtm.methods.registry import method_class
from rtm.models.registry import generator_builder, mapper_class, unused

P = ParamSpec("P")
T = TypeVar("T")
NETWORKS = {"lpips": "vgg16"}  # weights file of a perceptual space, if its name differs
TABLE_SUFFIXES = (".tex", ".csv", ".md", ".macros.tex", ".lineage.json")
FIGURE_SUFFIXES = (".pdf", ".png")
FIGURES_OF_IMAGES = ("samples", "slerp", "neighbours", "pairs")
FIGURES_OF_TRAININGS = ("curves", "progress", "rejected")
REFERENCE = {"extractor", "pr_extractor", "resize", "pr_reference"}  # keys of a protocol that change its features
IMAGES = "rtm.data.datasets:Images"  # an entry of its own, because verbs open the images and pass them on
LIGHT = Resources(gpus=0, cpus=1, mem_gb=4, hours=1)
# names of a dataset and its classes, and its sources: the checksum identifies the content
UNREAD_BY_FETCH = {"title", "class_names", "sources", "licence", "citation"}
# the intervals of saves and grids, and the loggers, change no result
UNREAD_BY_TRAINING = {"save_every", "grid_every", "loggers"}


def jobs(config: Config) -> dict[str, Job]:
    """The jobs of a scale by "<stage>/<name>"."""
    own = any(is_own(dataset.kind) for dataset in config.params.datasets.values())
    if own or any(experiment.outside for experiment in config.experiments.values()):
        return _Builder(config).graph  # their files may have changed
    return dict(_known(config))


@lru_cache(16)
def _known(config: Config) -> dict[str, Job]:
    return _Builder(config).graph


def every_job(folder: Path | str = PARAMS) -> dict[str, Job]:
    """The jobs of all scales by id; a job that several scales share appears once."""
    merged: dict[str, Job] = {}
    paper = load("paper", folder)
    for scale in (*paper.params.scales, *trials(folder)):
        for job in jobs(paper if scale == "paper" else load(scale, folder)).values():
            known = merged.setdefault(job.id, job)
            if known.params != job.params:
                raise UserError(
                    f"{folder}/scales.yaml: {scale} changes {job.id}, which it shares; set its own `shared`."
                )
    return merged


def jobs_named(targets: Sequence[str], folder: Path | str = PARAMS) -> dict[str, Job]:
    """The jobs of the scales that the targets belong to, by id: the folders of a target name its scale."""
    paper = load("paper", folder)
    named = {scale.root: name for name, scale in paper.params.scales.items()} | {each: each for each in trials(folder)}
    depths = ((2 if target.startswith(f"{TRIALS}/") else 1, target) for target in targets)
    scales = {named.get("/".join(target.split("/")[:depth]), "paper") for depth, target in depths}
    graphs = [jobs(paper if scale == "paper" else load(scale, folder)) for scale in sorted(scales)]
    graphs += [_of_variant(target, named.values(), folder) for target in targets if target.startswith(f"{VARIANTS}/")]
    return {job.id: job for graph in graphs for job in graph.values()}


def _of_variant(target: str, scales: Iterable[str], folder: Path | str) -> dict[str, Job]:
    """The jobs of the variant that a target names: variants/demo/train/digits_rtm+mapper.H=4."""
    scale = next((each for each in scales if target.startswith(f"{VARIANTS}/{each}/")), None)
    name = next((part.removesuffix(".json") for part in target.split("/") if JOINT in part), None)
    return jobs(load(scale, folder, Variant.of(name))) if scale and name else {}


def _once(build: Callable[Concatenate["_Builder", P], T]) -> Callable[Concatenate["_Builder", P], T]:
    """Cache the results of a method, because tables, figures and summaries ask for the same jobs."""

    def built(self: "_Builder", /, *args: P.args, **kwargs: P.kwargs) -> T:
        names = (each.name if isinstance(each, Experiment) else each for each in args)
        key = (build.__name__, *(name for name in names if isinstance(name, str | int)))
        if key not in self.built:
            self.built[key] = build(self, *args, **kwargs)
        return cast(T, self.built[key])

    return built


class _Builder:
    """Makes each job once, after its inputs."""

    def __init__(self, config: Config) -> None:
        self.config, self.layout, scale = config, config.layout, config.scale
        networks = scale.shared if scale.networks is None else scale.networks
        self.folders = {"root": scale.root, "shared": scale.shared, "networks": networks}
        self.graph: dict[str, Job] = {}
        self.built: dict[tuple[str | int, ...], object] = {}
        for dataset in config.params.datasets:
            self.dataset(dataset)
            for protocol in config.params.protocols:
                self.reference(dataset, protocol)
        for network in get_args(Protocol.model_fields["pr_extractor"].annotation):
            if network != "digit_classifier" or "digits" in config.params.datasets:  # a trial has no digits
                self.network(network)
        for experiment in config.experiments.values():
            self.summary(experiment)
            self.gallery(experiment)
        for name, foreign in config.params.foreign.items():
            for protocol in foreign.protocols:
                self.foreign(name, protocol)
        for name, table in config.tables.items():
            self.table(name, table)
        for name, figure in config.figures.items():
            self.figure(name, figure)
        self.report()

    def add(
        self,
        stage: Stage,
        subject: Subject,
        params: dict[str, Any],
        entries: tuple[str, ...],
        inputs: Iterable[Job],
        outputs: Iterable[Path],
        compute: Resources = LIGHT,
        *,
        keeper: Keeper | None = None,  # by default git or DVC, depending on the scale
        place: Literal["root", "shared", "networks"] = "root",
        temporary: bool = False,
        volatile: tuple[Path, ...] = (),
    ) -> Job:
        key = f"{stage}/{subject.name}"
        if key not in self.graph:
            folder = self.folders[place]
            root = f"{folder}/" if folder else ""
            once = tuple({job.id: job for job in inputs}.values())
            made, scale = tuple(outputs), self.config.scale_name
            kept: Keeper = keeper or ("git" if self.config.scale.in_git else "dvc")
            described = (scale, root, stage, subject, params, entries, once, made, compute)
            self.graph[key] = Job(*described, kept, temporary, volatile)
        return self.graph[key]

    @_once
    def dataset(self, name: str) -> Job:
        dataset, images = self.config.params.datasets[name], self.layout.images(name)
        outputs = [images, images.with_name("labels.npy")] if dataset.classes else [images]
        test = self.layout.test_images(name)
        aside = (test, test.with_name("test_labels.npy")) if dataset.test else ()
        unread = UNREAD_BY_FETCH | (set() if dataset.of else {"of", "label"})
        read = dataset.model_dump(mode="json", exclude=unread)
        read = {key: value for key, value in read.items() if key != "options" or value}
        read |= _source(dataset.kind) if is_own(dataset.kind) else {}
        left_out = () if dataset.of else ("!rtm.data.prepare:_subset",)
        subject, entries = Subject(dataset=name), ("rtm.data.prepare:prepare", *left_out)
        made, whole = [*outputs, *aside], [self.dataset(dataset.of)] if dataset.of else []
        return self.add(Stage.FETCH, subject, read, entries, whole, made, keeper="dvc", place="shared", volatile=aside)

    @_once
    def network(self, name: str) -> Job:
        file = NETWORKS.get(name, name)
        trained = file == "digit_classifier"
        entries = ("rtm.models.digits:train_digit_classifier", IMAGES) if trained else ("rtm.data.weights:convert",)
        inputs = [self.dataset("digits")] if trained else []
        subject, outputs = Subject(network=file), [self.layout.weights(file)]
        return self.add(
            Stage.FETCH, subject, {"network": file}, entries, inputs, outputs, keeper="nobody", place="networks"
        )

    def networks(self, protocol: str) -> list[Job]:
        read = self.config.params.protocols[protocol]
        return [self.network(read.extractor), self.network(read.pr_extractor)]

    def protocol(self, name: str, dataset: str) -> dict[str, Any]:
        """The values of a protocol for a dataset."""
        protocol = self.config.params.protocols[name]
        read = protocol.model_dump(mode="json", exclude={"title", "reference", "pr_reference"})
        return read | {"samples": protocol.required(dataset)}

    @_once
    def reference(self, dataset: str, protocol: str) -> Job:
        values = self.config.params.protocols[protocol]
        read = values.model_dump(mode="json", include=REFERENCE, exclude_none=True)
        inputs = [self.dataset(values.compared(dataset)), *self.networks(protocol)]
        outputs = [self.layout.reference(dataset, protocol)]
        subject = Subject(dataset=dataset, protocol=protocol)
        entries, digits = ("rtm.metrics.evaluate:write_reference",), values.extractor == "digit_classifier"
        small = digits or not any(each.recipe.resources.gpus for each in self.config.experiments.values())
        compute = LIGHT if small else Resources(gpus=1, cpus=8, mem_gb=64, hours=4)
        return self.add(
            Stage.REFERENCE, subject, read, entries, inputs, outputs, compute, keeper="nobody", place="shared"
        )

    @_once
    def train(self, experiment: Experiment, seed: int) -> Job:
        recipe, name = experiment.recipe, experiment.name
        read = _architecture(experiment) | {
            "seed": seed,
            "steps": experiment.steps(),
            "training": recipe.training.model_dump(mode="json", exclude=UNREAD_BY_TRAINING),
        }
        inputs = [self.dataset(experiment.dataset_name)]
        entries = ["rtm.training.assembly:train", "rtm.core.distributed", "!rtm.training.monitor:looks"]
        entries += [*_ours(method_class(experiment)), *_generator(experiment)]
        if recipe.imle:
            read["imle"] = recipe.imle.model_dump(mode="json")
            if isinstance(space := recipe.imle.perceptual, str):
                inputs.append(self.network(space))
            else:
                read["imle"]["perceptual"] |= _source(space.kind)
        elif recipe.stylegan2 and recipe.stylegan2.select == "best":
            protocol = recipe.stylegan2.select_protocol
            read["selection"] = self.protocol(protocol, experiment.dataset_name)
            inputs += [self.reference(experiment.dataset_name, protocol), *self.networks(protocol)]
        elif recipe.method:
            read["method"] = recipe.method.model_dump(mode="json") | _source(method_class(experiment))
        if "selection" not in read:
            entries.append("!rtm.training.monitor:selection")
        if recipe.training.watch:
            inputs.append(self.network(recipe.training.watch.extractor))
        outputs = [self.layout.checkpoint(name, seed), self.layout.curve(name, seed)]
        subject, curve = Subject(experiment=name, seed=seed), (outputs[1],)
        return self.add(
            Stage.TRAIN, subject, read, tuple(entries), inputs, outputs, recipe.resources, keeper="dvc", volatile=curve
        )

    @_once
    def sample(self, experiment: Experiment, seed: int) -> Job:
        read = _architecture(experiment) | {
            "seed": seed,
            "samples": experiment.recipe.evaluation.samples,
            "variants": _depths(experiment),
        }
        entries = ("rtm.metrics.sampling:write_samples", *_generator(experiment))
        inputs, outputs = [self.train(experiment, seed)], [self.layout.samples(experiment.name, seed)]
        subject, compute = Subject(experiment=experiment.name, seed=seed), _measuring(experiment)
        return self.add(Stage.SAMPLE, subject, read, entries, inputs, outputs, compute, keeper="nobody", temporary=True)

    @_once
    def gallery(self, experiment: Experiment) -> Job:
        """The job of the images of the first seed, for the figures."""
        seed = experiment.seeds[0]
        read = _architecture(experiment) | {"seed": seed}
        inputs = [self.train(experiment, seed), self.dataset(experiment.dataset_name)]
        inputs += [self.network(self.config.params.protocols[experiment.recipe.evaluation.protocols[0]].pr_extractor)]
        measured = ("rtm.metrics.gallery:write_gallery", "rtm.metrics.evaluate:extractor_of", IMAGES)
        entries = (*measured, *_generator(experiment))
        outputs = [self.layout.gallery(experiment.name, seed)]
        subject, compute = Subject(experiment=experiment.name, seed=seed), _measuring(experiment)
        return self.add(Stage.GALLERY, subject, read, entries, inputs, outputs, compute, keeper="dvc")

    @_once
    def evaluate(self, experiment: Experiment, protocol: str, seed: int) -> Job:
        read = self.protocol(protocol, experiment.dataset_name) | {"variants": _depths(experiment)}
        reference = self.reference(experiment.dataset_name, protocol)
        inputs = [self.sample(experiment, seed), reference, *self.networks(protocol)]
        entries: tuple[str, ...] = ("rtm.metrics.evaluate:write_metrics",)
        if isinstance(experiment.mapper, Recursive):  # the convergence is measured with the generator
            read |= _architecture(experiment) | {"seed": seed}
            inputs.append(self.train(experiment, seed))
            entries += _generator(experiment)
        outputs = [self.layout.metrics(experiment.name, protocol, seed)]
        subject = Subject(experiment=experiment.name, protocol=protocol, seed=seed)
        return self.add(Stage.EVALUATE, subject, read, entries, inputs, outputs, _measuring(experiment))

    @_once
    def foreign(self, name: str, protocol: str) -> Job:
        """The job that measures images that others generated; their hash identifies them."""
        entry = self.config.params.foreign[name]
        read = self.protocol(protocol, entry.dataset) | {"sha256": entry.sha256}
        reference = self.reference(entry.dataset, protocol)
        inputs, outputs = [reference, *self.networks(protocol)], [self.layout.foreign(name, protocol)]
        entries = ("rtm.metrics.foreign:write_foreign",)
        subject = Subject(foreign=name, protocol=protocol)
        return self.add(Stage.FOREIGN, subject, read, entries, inputs, outputs, reference.compute)

    @_once
    def latency(self, experiment: Experiment) -> Job:
        evaluation = experiment.recipe.evaluation
        read = _architecture(experiment) | {
            "batch": evaluation.latency_batch,
            "passes": [evaluation.latency_warmup, evaluation.latency_passes],
            "variants": _depths(experiment),
        }
        inputs, outputs = [self.train(experiment, experiment.seeds[0])], [self.layout.latency(experiment.name)]
        entries = ("rtm.metrics.latency:measure_latency", *_generator(experiment))
        subject, compute = Subject(experiment=experiment.name), _measuring(experiment)
        return self.add(Stage.LATENCY, subject, read, entries, inputs, outputs, compute)

    @_once
    def measured(self, experiment: Experiment) -> list[Job]:
        """The jobs of every metrics file of an experiment."""
        protocols = experiment.recipe.evaluation.protocols
        each = [self.evaluate(experiment, protocol, seed) for protocol in protocols for seed in experiment.seeds]
        return [*each, self.latency(experiment)]

    @_once
    def summary(self, experiment: Experiment) -> Job:
        read = {"seeds": list(experiment.seeds), "variants": list(experiment.variants)}
        name = experiment.name
        inputs, outputs = self.measured(experiment), [self.layout.summary(name), self.layout.sweep(name)]
        subject, entries = Subject(experiment=name), ("rtm.reports.summary:write_summary",)
        return self.add(Stage.SUMMARY, subject, read, entries, inputs, outputs)

    def summaries(self, names: Iterable[str]) -> list[Job]:
        """The jobs of the summaries, and of the metrics files that reports compare them with."""
        chosen = [self.config.experiment(name) for name in names]
        return [job for experiment in chosen for job in (self.summary(experiment), *self.measured(experiment))]

    @_once
    def table(self, name: str, table: Table) -> Job:
        entries = ("rtm.reports.tables:render_table", "rtm/reports/templates")
        outputs = [self.layout.table(name, suffix) for suffix in TABLE_SUFFIXES]
        return self.add(Stage.TABLE, Subject(table=name), self.shown(table), entries, self.filling(table), outputs)

    def filling(self, table: Table) -> list[Job]:
        """The jobs that make the measured cells of a table."""
        foreign = [self.foreign(name, protocol) for name, protocol in table.foreign_parts()]
        return [*self.summaries(table.experiments()), *foreign]

    def shown(self, table: Table) -> dict[str, Any]:
        """The definition of a table, the published numbers that it cites, and the titles of its protocols."""
        published = {key: self.config.params.published[key].model_dump(mode="json") for key in table.constants()}
        used = sorted({part.protocol for part in table.cells if part.protocol})
        titles = {protocol: self.config.params.protocols[protocol].title for protocol in used}
        foreign = {name: self.config.params.foreign[name].source for name, _ in table.foreign_parts()}
        shown = {"table": table.model_dump(mode="json"), "published": published, "protocols": titles}
        return {**shown, "foreign": foreign}

    @_once
    def figure(self, name: str, figure: Figure) -> Job:
        chosen = [self.config.experiment(name) for name in figure.experiments]
        labels = {each.name: [each.dataset.title, each.mapper.model_dump(mode="json")] for each in chosen}
        read: dict[str, Any] = {"figure": figure.model_dump(mode="json"), "labels": labels}
        if figure.kind in FIGURES_OF_IMAGES:
            inputs = [self.gallery(experiment) for experiment in chosen]
        elif figure.kind in FIGURES_OF_TRAININGS:
            inputs = [self.train(experiment, seed) for experiment in chosen for seed in experiment.seeds]
        else:
            inputs = self.summaries(figure.experiments)
        if figure.table:
            table = self.config.params.tables[figure.table]
            read |= self.shown(table)
            inputs += self.filling(table)
        outputs = [self.layout.figure(name, suffix) for suffix in FIGURE_SUFFIXES]
        entries = ("rtm.reports.figures:render_figure",)
        return self.add(Stage.FIGURE, Subject(figure=name), read, entries, inputs, outputs)

    def report(self) -> Job:
        """The job of the page with everything. Neither git nor DVC keeps the page."""
        shown = {name: [figure.title, figure.caption] for name, figure in self.config.figures.items()}
        inputs = [self.table(name, table) for name, table in self.config.tables.items()]
        inputs += [self.figure(name, figure) for name, figure in self.config.figures.items()]
        entries = ("rtm.page.html:write_page", "rtm.reports.status:statuses", "rtm/page/web")
        outputs = [self.layout.page()]
        return self.add(Stage.REPORT, Subject(), {"figures": shown}, entries, inputs, outputs, keeper="nobody")


def _measuring(experiment: Experiment) -> Resources:
    """The resources for samples and metrics: one GPU's share of the training's resources, and hours, not weeks."""
    whole = experiment.recipe.resources
    share = max(1, whole.gpus)
    return Resources(
        gpus=min(1, whole.gpus),
        gpu_model=whole.gpu_model,
        cpus=max(1, whole.cpus // share),
        mem_gb=max(2, whole.mem_gb // share),
        hours=min(8.0, whole.hours),
    )


def _generator(experiment: Experiment) -> tuple[str, ...]:
    """The entries for the code that builds a generator."""
    architecture = experiment.architecture
    left_out = (f"!{name}" for name in unused(architecture))
    return generator_builder(architecture), *_ours(mapper_class(experiment.mapper.kind)), *left_out


def _depths(experiment: Experiment) -> dict[str, dict[str, float]]:
    """The options with which each variant is sampled."""
    return {name: depth.options() | {"shuffled": depth.shuffled} for name, depth in experiment.depths.items()}


def _ours(name: str) -> tuple[str, ...]:
    return (name,) if name.startswith("rtm.") else ()


def _source(name: str) -> dict[str, str]:
    """The hash of a user's class: its code is outside the package, so the fingerprint of `rtm` does not include it."""
    return {} if _ours(name) else {"source": source_digest(name)}


def _own_source(part: object) -> dict[str, str]:
    kind = getattr(part, "kind", None)
    return _source(kind) if isinstance(kind, str) else {}


def _architecture(experiment: Experiment) -> dict[str, Any]:
    """The parameters that a generator is built from and computes with."""
    decoder, gan, mapper = experiment.decoder, experiment.recipe.stylegan2, experiment.mapper
    return {
        "dim": experiment.recipe.dim,
        "mapper": mapper.model_dump(mode="json") | _source(mapper_class(mapper.kind)),
        "decoder": decoder and decoder.model_dump(mode="json") | _own_source(decoder),
        "stylegan2": gan and gan.model_dump(mode="json"),
        "tf32": experiment.recipe.training.tf32,
    }
