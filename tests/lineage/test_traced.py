"""A receipt never calls a wrong number fresh, because all code that a stage executes is in its fingerprint.

Every stage runs for real at smoke scale while Python's profiler notes the functions of rtm/ that are called. Each of
them is then changed, one at a time, and the fingerprint of the stage must change too.
"""

import ast
import cProfile
import gc
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from inspect import CO_OPTIMIZED  # set for functions, not for the bodies of modules and classes
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np
import pytest
import yaml
from support import PARAMS, ROOT, fake_results
from support.changed_code import Variants, first, written

from rtm.cli import main as cli
from rtm.config import Config, load, loading
from rtm.core.files import digest_of_all
from rtm.lineage.fingerprint import LEFT_OUT, Code, present
from rtm.lineage.job import Job, Stage
from rtm.pipeline import graph
from rtm.pipeline.graph import jobs

pytestmark = pytest.mark.slow(seconds=10)
Function = tuple[str, int]  # module, first line
PACKAGE = str(ROOT / "rtm")
WATCH = ("rtm.training.monitor:looks",)
IMLE, GAN, OTHERS = "shells_imle_rtm", "cifar10_stylegan2_ada_rtm", "others_shells"
VIEWS = {
    "table": ["tab_fid"],
    "figure": ["fig_fewshot_shells", "fig_slerp_shells_dog", "fig_sweep_cifar10", "fig_curves_cifar10"],
}
VIEWS["figure"] += ["fig_precision_recall_cifar10", "fig_progress_cifar10", "fig_rejected_fewshot", "fig_pairs_afhq_1"]
VIEWS["figure"] += ["fig_neighbours_cifar10", "fig_convergence"]


@contextmanager
def tracing(seen: set[Function]) -> Iterator[None]:
    profiler = cProfile.Profile(subcalls=False, builtins=False)  # in C: ten times as fast as sys.setprofile
    try:
        with profiler:
            yield
    finally:
        codes = [entry.code for entry in profiler.getstats()]
        named = [code for code in codes if isinstance(code, CodeType) and _is_ours(code)]
        seen |= {(_module(code.co_filename), code.co_firstlineno) for code in named}


def _is_ours(code: CodeType) -> bool:
    """Whether it is a function of rtm/; templates also have frames."""
    path = code.co_filename
    return path.startswith(PACKAGE) and path.endswith(".py") and bool(code.co_flags & CO_OPTIMIZED)


def _module(filename: str) -> str:
    parts = Path(filename).relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def verb(patch: pytest.MonkeyPatch, *words: str) -> None:
    patch.setattr(sys, "argv", ["rtm", *words, "--scale", "smoke"])
    cli.main()


def prepared(folder: Path) -> Config:
    """A workspace whose params/ also have an entry for foreign images."""
    shutil.copytree(PARAMS, folder / "params")
    np.save("others.npy", np.random.default_rng(0).integers(0, 256, (64, 8, 8, 3), np.uint8))
    entry = {"source": "Noise", "samples": "others.npy", "sha256": digest_of_all(Path("others.npy"))}
    foreign = {OTHERS: {**entry, "dataset": "shells", "protocols": ["rs_imle"]}}
    Path("params/foreign.yaml").write_text(yaml.safe_dump({"foreign": foreign}))
    return load("smoke")


def calls(config: Config) -> dict[str, tuple[str, ...]]:
    """Job -> the command to trace, in an order in which each job finds its inputs."""
    found: dict[str, tuple[str, ...]] = {
        "fetch/digits": ("fetch", "digits"),
        "fetch/shells": ("fetch", "shells"),
        "fetch/cifar10": ("fetch", "cifar10"),
        "fetch/digit_classifier": ("fetch", "digit_classifier"),
        "reference/shells/rs_imle": ("reference", "shells", "rs_imle"),
        f"foreign/{OTHERS}/rs_imle": ("evaluate", OTHERS, "--protocol", "rs_imle"),
    }
    for name in (IMLE, GAN):
        experiment = config.experiments[name]
        for protocol in experiment.recipe.evaluation.protocols:
            dataset = experiment.dataset_name
            found[f"reference/{dataset}/{protocol}"] = ("reference", dataset, protocol)
        for stage in ("train", "sample", "gallery"):
            found[f"{stage}/{name}/seed0"] = (stage, name)
        for protocol in experiment.recipe.evaluation.protocols:
            found[f"evaluate/{name}/{protocol}/seed0"] = ("evaluate", name, "--protocol", protocol)
        found[f"latency/{name}"] = ("latency", name)
        found[f"summary/{name}"] = ("summary", name)
    return found


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Job, set[Function]]]:
    """The functions that each job called. There is a job of every stage."""
    folder = tmp_path_factory.mktemp("traced")
    seen: dict[Job, set[Function]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("rtm.models.digits.STEPS", 20)  # of 1,000, because every step calls the same functions
        config = prepared(folder)
        graph = jobs(config)
        for name, words in calls(config).items():
            with tracing(seen.setdefault(graph[name], set())):
                verb(patch, *words)
        measured = {IMLE, GAN}
        for name in config.experiments.keys() - measured:
            fake_results.write_results(config, config.layout, name, {})
        for name in config.experiments:
            fake_results.write_gallery(config, config.layout, name)
            fake_results.write_curves(config, config.layout, name)
        for stage, names in VIEWS.items():
            for name in names:
                with tracing(seen.setdefault(graph[f"{stage}/{name}"], set())):
                    verb(patch, stage, name)
        with tracing(seen.setdefault(graph["report/index"], set())):
            verb(patch, "report")
        yield seen


def is_left_out(module: str) -> bool:
    return any(f"{module}.".startswith(f"{name}.") for name in LEFT_OUT)


def test_every_stage_is_traced(traced: Mapping[Job, set[Function]]) -> None:
    assert {job.stage for job in traced} == set(Stage)
    assert all(len(functions) > 5 for functions in traced.values())


@pytest.fixture
def _no_collections() -> Iterator[None]:
    """Syntax trees have no cycles, and the garbage collector would take half of the time."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_no_collections")
def test_a_change_of_any_executed_function_changes_the_fingerprint(traced: Mapping[Job, set[Function]]) -> None:
    code, missed = present(), set()
    roots = {entries: code.root(entries) for entries in [WATCH, *(job.entries for job in traced)]}
    variants = Variants(code, roots)
    functions = {each for called in traced.values() for each in called if not is_left_out(each[0])}
    assert len(functions) > 200
    for number, function in enumerate(sorted(functions)):
        changed = variants.of(function[0], with_change(code.sources[function[0]], function))
        is_watch = changed.root(WATCH) != roots[WATCH]  # only numbers of the curve: no weight depends on them
        users = {
            job.entries: job
            for job, called in traced.items()
            if function in called and not (is_watch and job.stage is Stage.TRAIN)
        }
        missed |= {
            f"{function[0]}:{function[1]} in {job.id}"
            for entries, job in users.items()
            if changed.root(entries) == roots[entries]
        }
        if number % 50 == 0:  # shared caches of the variants do not change the result
            alone = Code(changed.sources, code.files)
            assert all(alone.root(entries) == changed.root(entries) for entries in roots)
    assert not missed, "\n".join(sorted(missed))


@cache
def places(text: str) -> list[range]:
    """The lines of each statement at the top of a module."""
    return [range(first(each), (each.end_lineno or each.lineno) + 1) for each in ast.parse(text).body]


def statement(text: str, place: range) -> ast.stmt:
    """The statement on these lines, parsed alone: parsing the module would take twenty times as long."""
    lines = text.splitlines()[place.start - 1 : place.stop - 1]
    return ast.parse("\n" * (place.start - 1) + "\n".join(lines)).body[0]


def with_change(text: str, function: Function) -> str:
    """The module with one more statement, or another value, in the function that begins at this line."""
    module, line = function
    for place in places(text):
        if line not in place:
            continue
        top = statement(text, place)
        for node in ast.walk(top):
            decorators = getattr(node, "decorator_list", [])
            if getattr(node, "lineno", None) != line and line not in [each.lineno for each in decorators]:
                continue
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                node.body.append(ast.parse("raise KeyError").body[0])
            elif isinstance(node, ast.Lambda):
                node.body = ast.Tuple([node.body], ast.Load())
            elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
                node.elt = ast.Tuple([node.elt], ast.Load())
            elif isinstance(node, ast.DictComp):
                node.value = ast.Tuple([node.value], ast.Load())
            else:
                continue
            return written(text, top)
    pytest.fail(f"{module} has no function at line {line}")


def test_little_is_left_out() -> None:
    """Fingerprints leave out only code that calls, finds and shows jobs. No number comes from this code."""
    assert set(LEFT_OUT) == {
        *("rtm.cli", "rtm.config", "rtm.lineage", "rtm.pipeline"),
        *("rtm.core.errors", "rtm.core.files", "rtm.core.layout", "rtm.core.progress"),
        *("rtm.data.download", "rtm.data.fetch", "rtm.data.parts", "rtm.reports.terminal"),
        *("rtm.methods.registry", "rtm.models.registry"),
        "rtm.training.launch",
    }


CONFIG = "rtm.config"
DERIVED: dict[str, tuple[str, Any, Stage]] = {  # computed by config: place, wrong value, and the stage that reads it
    "which number fills a cell": ("reports._section", lambda part: "latency", Stage.TABLE),
    "how many images a figure shows": ("reports.Figure.images", property(lambda self: 12345), Stage.FIGURE),
    "at which H samples are drawn": ("parameters.Depth.options", lambda self: {"H": 3}, Stage.SAMPLE),
    "how long a training is": ("experiments.Training.total_steps", lambda self, images: 3, Stage.TRAIN),
    "how many samples are measured": ("experiments.Protocol.required", lambda self, name: 63, Stage.EVALUATE),
}


def forget() -> None:
    """Drop everything that was loaded with other code."""
    loading._loaded.cache_clear()
    graph._known.cache_clear()


@pytest.fixture
def forgetting() -> Iterator[None]:
    yield
    forget()


@pytest.mark.usefixtures("forgetting")
@pytest.mark.parametrize("fact", DERIVED)
def test_what_config_computes_is_in_the_receipt_by_value(fact: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code of rtm.config is left out of fingerprints because its values are parameters of the jobs."""
    monkeypatch.chdir(ROOT)
    place, wrong, stage = DERIVED[fact]

    def params() -> dict[str, Any]:
        forget()
        return {name: job.params for name, job in jobs(load("smoke")).items() if job.stage is stage}

    before = params()
    monkeypatch.setattr(f"{CONFIG}.{place}", wrong)
    after = params()
    assert before.keys() == after.keys() and all(before[name] != after[name] for name in before)
