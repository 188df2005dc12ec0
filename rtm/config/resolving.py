"""Follow the names in `params/`, and refuse values that do not fit together."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from rtm.config.experiments import AnyDecoder, Dataset, DecoderConfig, Entry, Mapper, Recipe, Recursive
from rtm.config.parameters import Experiment, Params, Scale
from rtm.config.reports import COST_METRICS
from rtm.core.errors import UserError

T = TypeVar("T")


def resolve(params: Params, name: str, entry: Entry, place: str) -> Experiment:
    """An entry with the objects that it names; messages begin with `place`."""

    def follow(options: Mapping[str, T], key: str | None, field: str) -> T:
        if key is None or key not in options:
            raise UserError(f"{place}.{field}: there is no {key!r}; choose one of {', '.join(options)}.")
        return options[key]

    recipe = follow(params.recipes, entry.recipe, "recipe")
    dataset_name = entry.dataset or recipe.dataset
    dataset = follow(params.datasets, dataset_name, "dataset")
    assert dataset_name is not None
    mapper = follow(params.mappers, entry.mapper, "mapper")
    decoder = follow(params.decoders, recipe.decoder, "decoder") if recipe.decoder else None
    for protocol in recipe.evaluation.protocols:
        follow(params.protocols, protocol, "protocol")
    if recipe.stylegan2 and recipe.stylegan2.select == "best":
        follow(params.protocols, recipe.stylegan2.select_protocol, "select_protocol")
    _check_fit(place, recipe, dataset, mapper, decoder, entry)
    _check_numbers(place, params, recipe, dataset_name)
    return Experiment(name, recipe, dataset_name, dataset, mapper, decoder, entry.seeds, entry.sweep)


def _check_fit(
    place: str, recipe: Recipe, dataset: Dataset, mapper: Mapper, decoder: AnyDecoder | None, entry: Entry
) -> None:
    dim = recipe.dim
    if isinstance(mapper, Recursive):
        if mapper.tokens is None and dim % mapper.width:
            raise UserError(f"{place}.mapper: dim {dim} is not a multiple of width {mapper.width}; change one of them.")
        if mapper.fit and mapper.tokens is not None and mapper.tokens * mapper.width != dim:
            raise UserError(
                f"{place}.mapper: {mapper.tokens} tokens x width {mapper.width} is not dim {dim}; "
                "change one of them, or set fit: false."
            )
    elif entry.sweep:
        raise UserError(f"{place}.sweep: only a recursive mapper can change H at inference; remove the sweep.")
    elif recipe.imle and recipe.imle.fixed_point:
        raise UserError(f"{place}: fixed_point needs a recursive mapper; give this one a recipe without it.")
    if (gan := recipe.stylegan2) and (dataset.resolution < 4 or dataset.resolution & (dataset.resolution - 1)):
        raise UserError(f"{place}: StyleGAN2 needs a power of two from 4 px on, images have {dataset.resolution} px.")
    if gan and gan.channel_base < dataset.resolution:
        raise UserError(f"{place}: channel_base must be at least the resolution of the images, {dataset.resolution}.")
    if isinstance(decoder, DecoderConfig) and decoder.resolution != dataset.resolution:
        raise UserError(
            f"{place}: decoder {recipe.decoder} ends at {decoder.resolution} px, images have {dataset.resolution} px."
        )


def _check_numbers(place: str, params: Params, recipe: Recipe, dataset_name: str) -> None:
    """Check the numbers of images before any are generated."""
    made, watch, count = recipe.evaluation.samples, recipe.training.watch, params.datasets[dataset_name].count
    for name in recipe.evaluation.protocols:
        _check_protocol(place, params, name, dataset_name)
        if made < (required := params.protocols[name].required(dataset_name)):
            raise UserError(f"{place}: evaluation.samples is {made}, protocol {name} asks for {required}; raise it.")
    if watch and not watch.k < watch.samples <= count:
        raise UserError(
            f"{place}: training.watch compares {watch.samples} samples with as many of {count} images at k = {watch.k};"
            " choose k below samples, and samples no more than images."
        )


def _check_protocol(place: str, params: Params, name: str, dataset_name: str) -> None:
    protocol = params.protocols[name]
    if (reference := protocol.compared(dataset_name)) not in params.datasets:
        raise UserError(f"{place}: protocol {name} compares with {reference!r}, which is not a dataset.")
    count = params.datasets[reference].count
    required = protocol.required(dataset_name)
    fewest = min(count, required, protocol.pr_samples or required)
    if protocol.k >= fewest:
        raise UserError(f"{place}: protocol {name} has k = {protocol.k} and compares {fewest} images; lower its k.")
    if protocol.splits > required:
        raise UserError(f"{place}: protocol {name} has {protocol.splits} splits of {required} samples; lower splits.")


def check(params: Params, scale: Scale, experiments: Mapping[str, Experiment], files: Mapping[str, Path]) -> None:
    """Check the names and numbers that several sections of a scale share."""
    _check_subsets(params, f"{files['datasets']}: datasets")
    _check_foreign(params, f"{files['foreign']}: foreign")
    _check_reports(params, scale, experiments, files)


def _check_subsets(params: Params, place: str) -> None:
    for name, dataset in params.datasets.items():
        if not dataset.of:
            continue
        whole = params.datasets.get(dataset.of)
        if whole is None or whole.of:
            raise UserError(f"{place}.{name}.of: there is no {dataset.of!r}, or it is a subset; name a whole dataset.")
        known = range(whole.classes)
        if whole.resolution != dataset.resolution or (dataset.label is not None and dataset.label not in known):
            raise UserError(
                f"{place}.{name}: {dataset.of} has {whole.resolution} px and {whole.classes} classes; name its "
                "resolution, and a label below its classes."
            )


def _check_foreign(params: Params, place: str) -> None:
    for name, foreign in params.foreign.items():
        if name in {*params.experiments, *params.demo, *params.desk}:
            raise UserError(f"{place}.{name}: an experiment has this name; choose another.")
        for protocol in foreign.protocols:
            if protocol not in params.protocols or foreign.dataset not in params.datasets:
                raise UserError(f"{place}.{name}: there is no protocol {protocol!r} or no dataset {foreign.dataset!r}.")
            _check_protocol(f"{place}.{name}", params, protocol, foreign.dataset)


def _check_reports(
    params: Params, scale: Scale, experiments: Mapping[str, Experiment], files: Mapping[str, Path]
) -> None:
    """Check that every name in the scale, its tables and its figures exists."""

    def known(options: Mapping[str, T], name: str, place: str, kind: str) -> T:
        if name not in options:
            raise UserError(f"{place}: there is no {kind} {name!r}; choose one of {', '.join(options)}.")
        return options[name]

    for name in scale.tables:
        table = known(params.tables, name, f"{files['scales']}: tables", "table")
        place = f"{files['tables']}: tables.{name}"
        for constant in table.constants():
            known(params.published, constant, place, "published entry")
        for foreign, protocol in table.foreign_parts():
            entry = known(params.foreign, foreign, place, "foreign entry")
            known(dict.fromkeys(entry.protocols), protocol, f"{place}: {foreign}", "protocol")
        for part in table.cells:
            if part.experiment is None:
                continue
            experiment = known(experiments, part.experiment, place, "experiment")
            known(
                dict.fromkeys(experiment.variants), part.variant or "native", f"{place}: {part.experiment}", "variant"
            )
            if part.metric not in COST_METRICS:
                protocols = dict.fromkeys(experiment.recipe.evaluation.protocols)
                known(protocols, str(part.protocol), f"{place}: {part.experiment}", "protocol")
    for name in scale.kept or ():
        known(experiments, name, f"{files['scales']}: kept", "experiment")
    for name in scale.figures:
        figure = known(params.figures, name, f"{files['scales']}: figures", "figure")
        place = f"{files['figures']}: figures.{name}"
        for chosen in figure.experiments:
            known(experiments, chosen, place, "experiment")
        if figure.table is not None:
            known(dict.fromkeys(scale.tables), figure.table, place, "table")
