"""The jobs of a scale, of all scales, and those that a word of a user means."""

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path

from rtm.config import Config, load
from rtm.config.loading import PARAMS, VARIANTS, trials
from rtm.config.variants import JOINT, Variant
from rtm.core.errors import UserError
from rtm.stages import stages
from rtm.stages.base import Job, upstream

Graph = dict[str, Job]


def jobs(config: Config) -> Graph:
    """The jobs of a scale by id, each after those that it reads."""
    graph: Graph = {}
    for stage in stages().values():
        named = [stage.job(config, **names) for names in stage.every(config)]
        graph |= {job.id: job for job in upstream(named)}
    return graph


def every_job(folder: Path | str = PARAMS) -> Graph:
    """The jobs of all scales by id; a job that several scales share appears once."""
    graph: Graph = {}
    for scale in (*load("paper", folder).params.scales, *trials(folder)):
        for job in jobs(load(scale, folder)).values():
            known = graph.setdefault(job.id, job)
            if known is not job and known.values != job.values:
                raise UserError(
                    f"{folder}/scales.yaml: {scale} changes {job.id}, which it shares; set its own `shared`."
                )
    return graph


def job_named(identifier: str) -> Job:
    """The job with this id: demo/evaluate/digits_rtm/digits/seed0."""
    graph = _with_variants([identifier])
    if identifier not in graph:
        raise UserError(f"There is no job {identifier}{suggested(identifier, graph)}.")
    return graph[identifier]


def check_seed(config: Config, name: str, seed: int) -> None:
    seeds = config.experiment(name).seeds
    if seed not in seeds:
        known = ", ".join(map(str, seeds))
        raise UserError(f"{name} has no seed {seed}; choose one of {known}, or add the seed in params/.")


def find(graph: Graph, target: str) -> list[Job]:
    """The jobs that a target names. It is a file, an id, or the beginning of ids ("train/cifar10_imle_rtm")."""
    path = Path(target)
    start = f"{target.rstrip('/')}/"
    makers = [job for job in graph.values() if path in (*job.outputs.values(), job.receipt)]
    named = makers or [job for job in graph.values() if f"{job.id}/".startswith(start)]
    if not named:
        raise UserError(f"Nothing makes {target}{suggested(target, _targets(graph))}.")
    return named


def jobs_of(targets: Sequence[str]) -> list[Job]:
    """The jobs that targets name, of all scales and of variants."""
    if not targets:
        raise UserError("Name a file or a job, e.g. `rtm lineage why reports/tab_cifar10.tex`.")
    graph = _with_variants(targets)
    named = {job.id: job for target in targets for job in find(graph, target)}
    return list(named.values())


def _with_variants(targets: Iterable[str]) -> Graph:
    """The jobs of all scales, and of the variants of experiments that the targets name."""
    graph = every_job()
    scales = [*load().params.scales, *trials()]
    for target in targets:
        variants = [part.removesuffix(".json") for part in Path(target).parts if JOINT in part]
        places = [scale for scale in scales if target.startswith(f"{VARIANTS}/{scale}/")]
        if variants and places:
            graph |= jobs(load(places[0], variant=Variant.of(variants[0])))
    return graph


def _targets(graph: Graph) -> list[str]:
    """All valid targets: names of files, of jobs, and of the jobs of all seeds."""
    names: dict[str, None] = {}
    for job in graph.values():
        files = map(str, job.outputs.values())
        names |= dict.fromkeys([*files, job.id, str(Path(job.id).parent)])
    return list(names)


def suggested(target: str, known: Iterable[str]) -> str:
    """The most similar names; if there are none, the files of the target's folder, or the tables."""
    options = list(known)
    near = difflib.get_close_matches(target, options, n=5, cutoff=0.75)
    path = Path(target)
    beside = [name for name in options if Path(name).with_name(path.name) == path and name.endswith(path.suffix)]
    tables = [name for name in options if name.endswith(".tex")]
    chosen = near or beside or tables
    return f"; choose one of {', '.join(chosen)}" if chosen else ""
