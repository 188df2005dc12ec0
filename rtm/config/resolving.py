"""Follow the names in `params/`, and refuse values that do not fit together."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from rtm.config.catalogue import is_cost
from rtm.config.experiments import DecoderConfig, Entry, Recursive
from rtm.config.parameters import Experiment, Params, Scale
from rtm.config.reports import TableEntry
from rtm.core.errors import UserError

T = TypeVar("T")


def _one_of(options: Mapping[str, T], name: str | None, place: str, kind: str = "") -> T:
    """The option with this name. The error begins with the place and lists all options."""
    if name is None or name not in options:
        raise UserError(f"{place}: there is no {kind}{name!r}; choose one of {', '.join(options)}.")
    return options[name]


def resolve(params: Params, name: str, entry: Entry, place: str) -> Experiment:
    """An entry with the objects that it names; messages begin with `place`."""
    recipe = _one_of(params.recipes, entry.recipe, f"{place}.recipe")
    dataset_name = entry.dataset or recipe.dataset
    dataset = _one_of(params.datasets, dataset_name, f"{place}.dataset")
    assert dataset_name is not None
    mapper = _one_of(params.mappers, entry.mapper, f"{place}.mapper")
    decoder = None
    if recipe.decoder:
        decoder = _one_of(params.decoders, recipe.decoder, f"{place}.decoder")
    for protocol in recipe.evaluation.protocols:
        _one_of(params.protocols, protocol, f"{place}.protocol")
    if recipe.stylegan2 and recipe.stylegan2.select == "best":
        _one_of(params.protocols, recipe.stylegan2.select_protocol, f"{place}.select_protocol")
    experiment = Experiment(name, recipe, dataset_name, dataset, mapper, decoder, entry.seeds, entry.sweep)
    _check_mapper(place, experiment)
    _check_resolution(place, experiment)
    _check_numbers(place, params, experiment)
    return experiment


def _check_mapper(place: str, experiment: Experiment) -> None:
    recipe = experiment.recipe
    mapper = experiment.mapper
    if not isinstance(mapper, Recursive):
        if experiment.sweep:
            raise UserError(f"{place}.sweep: only a recursive mapper can change H at inference; remove the sweep.")
        if recipe.imle and recipe.imle.fixed_point:
            raise UserError(f"{place}: fixed_point needs a recursive mapper; give this one a recipe without it.")
        return
    dim = recipe.dim
    if mapper.tokens is None and dim % mapper.width:
        raise UserError(f"{place}.mapper: dim {dim} is not a multiple of width {mapper.width}; change one of them.")
    if mapper.fit and mapper.tokens is not None and mapper.tokens * mapper.width != dim:
        raise UserError(
            f"{place}.mapper: {mapper.tokens} tokens x width {mapper.width} is not dim {dim}; "
            "change one of them, or set fit: false."
        )


def _check_resolution(place: str, experiment: Experiment) -> None:
    resolution = experiment.dataset.resolution
    gan = experiment.recipe.stylegan2
    decoder = experiment.decoder
    name = experiment.recipe.decoder
    is_power_of_two = resolution & (resolution - 1) == 0
    if gan and (resolution < 4 or not is_power_of_two):
        raise UserError(f"{place}: StyleGAN2 needs a power of two from 4 px on, images have {resolution} px.")
    if gan and gan.channel_base < resolution:
        raise UserError(f"{place}: channel_base must be at least the resolution of the images, {resolution}.")
    if isinstance(decoder, DecoderConfig) and decoder.resolution != resolution:
        raise UserError(f"{place}: decoder {name} ends at {decoder.resolution} px, images have {resolution} px.")


def _check_numbers(place: str, params: Params, experiment: Experiment) -> None:
    """Check the numbers of images before any are generated."""
    samples = experiment.recipe.evaluation.samples
    watch = experiment.recipe.training.watch
    count = experiment.dataset.count
    for name in experiment.recipe.evaluation.protocols:
        _check_protocol(place, params, name, experiment.dataset_name)
        required = params.protocols[name].required(experiment.dataset_name)
        if samples < required:
            raise UserError(f"{place}: evaluation.samples is {samples}, protocol {name} asks for {required}; raise it.")
    if watch and not watch.k < watch.samples <= count:
        raise UserError(
            f"{place}: training.watch compares {watch.samples} samples with as many of {count} images at k = {watch.k};"
            " choose k below samples, and samples no more than images."
        )


def _check_protocol(place: str, params: Params, name: str, dataset_name: str) -> None:
    protocol = params.protocols[name]
    reference = protocol.compared(dataset_name)
    if reference not in params.datasets:
        raise UserError(f"{place}: protocol {name} compares with {reference!r}, which is not a dataset.")
    required = protocol.required(dataset_name)
    fewest = min(params.datasets[reference].count, required, protocol.pr_samples or required)
    if protocol.k >= fewest:
        raise UserError(f"{place}: protocol {name} has k = {protocol.k} and compares {fewest} images; lower its k.")
    if protocol.splits > required:
        raise UserError(f"{place}: protocol {name} has {protocol.splits} splits of {required} samples; lower splits.")


def check(
    params: Params,
    scale: Scale,
    experiments: Mapping[str, Experiment],
    files: Mapping[str, Path],
) -> None:
    """Check the names and numbers that several sections of a scale share."""
    _check_subsets(params, f"{files['datasets']}: datasets")
    for name in scale.tables:
        table = _one_of(params.tables, name, f"{files['scales']}: tables", "table ")
        _check_table(params, experiments, table, f"{files['tables']}: tables.{name}")
    for name in scale.kept or ():
        _one_of(experiments, name, f"{files['scales']}: kept", "experiment ")
    for name in scale.figures:
        figure = _one_of(params.figures, name, f"{files['scales']}: figures", "figure ")
        place = f"{files['figures']}: figures.{name}"
        for experiment in figure.experiments:
            _one_of(experiments, experiment, place, "experiment ")
        if figure.table is not None:
            _one_of(dict.fromkeys(scale.tables), figure.table, place, "table ")


def _check_subsets(params: Params, place: str) -> None:
    for name, dataset in params.datasets.items():
        if not dataset.of:
            continue
        whole = params.datasets.get(dataset.of)
        if whole is None or whole.of:
            raise UserError(f"{place}.{name}.of: there is no {dataset.of!r}, or it is a subset; name a whole dataset.")
        is_class = dataset.label is None or dataset.label < whole.classes
        if whole.resolution != dataset.resolution or not is_class:
            raise UserError(
                f"{place}.{name}: {dataset.of} has {whole.resolution} px and {whole.classes} classes; name its "
                "resolution, and a label below its classes."
            )


def _check_table(
    params: Params,
    experiments: Mapping[str, Experiment],
    table: TableEntry,
    place: str,
) -> None:
    """Check that every name in a table exists."""
    for constant in table.constants():
        _one_of(params.published, constant, place, "published entry ")
    for cell in table.cells:
        if cell.measured:
            _one_of(params.protocols, str(cell.protocol), place, "protocol ")
        if cell.experiment is None:
            continue
        experiment = _one_of(experiments, cell.experiment, place, "experiment ")
        row = f"{place}: {cell.experiment}"
        _one_of(dict.fromkeys(experiment.variants), cell.variant or "native", row, "variant ")
        if not is_cost(cell.metric):
            _one_of(dict.fromkeys(experiment.recipe.evaluation.protocols), str(cell.protocol), row, "protocol ")
