"""A receipt never calls a wrong number fresh, because all code that a stage executes is in its hash.

Every stage runs for real at smoke scale while Python's profiler notes the functions of rtm/ that are called. Each of
them is then changed, one at a time, and the hash of the stage's code must change too.
"""

import ast
import cProfile
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from inspect import CO_OPTIMIZED  # set for functions, not for the bodies of modules and classes
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
from support import PARAMS, ROOT, fake_results

from rtm.config import Config, load, loading
from rtm.lineage.code import LEFT_OUT, Code, module_name, present
from rtm.lineage.recording import run
from rtm.metrics.extractors import EXTRACTORS
from rtm.stages import stages
from rtm.stages.base import Job, upstream
from rtm.stages.figure import Figure
from rtm.stages.gallery import Gallery
from rtm.stages.graph import jobs
from rtm.stages.report import Report
from rtm.stages.summary import Summary
from rtm.stages.table import Table

pytestmark = pytest.mark.slow(seconds=20)
Function = tuple[str, int]  # module, first line
PACKAGE = str(ROOT / "rtm")
MEASURED = ("shells_imle_rtm", "cifar10_stylegan2_ada_rtm")
FIGURES = (
    "fig_fewshot_shells",
    "fig_slerp_shells_dog",
    "fig_sweep_cifar10",
    "fig_curves_cifar10",
    "fig_precision_recall_cifar10",
    "fig_progress_cifar10",
    "fig_rejected_fewshot",
    "fig_pairs_afhq_1",
    "fig_neighbours_cifar10",
    "fig_convergence",
)


@contextmanager
def tracing(seen: set[Function]) -> Iterator[None]:
    profiler = cProfile.Profile(subcalls=False, builtins=False)  # in C: ten times as fast as sys.setprofile
    try:
        with profiler:
            yield
    finally:
        codes = [entry.code for entry in profiler.getstats()]
        functions = [code for code in codes if isinstance(code, CodeType) and _is_ours(code)]
        for code in functions:
            seen.add((module_name(Path(code.co_filename).relative_to(ROOT)), code.co_firstlineno))


def _is_ours(code: CodeType) -> bool:
    """Whether it is a function of rtm/; templates also have frames."""
    path = code.co_filename
    return path.startswith(PACKAGE) and path.endswith(".py") and bool(code.co_flags & CO_OPTIMIZED)


def measured(config: Config) -> list[Job]:
    """The jobs of two experiments of different methods, inputs first."""
    wanted = []
    for name in MEASURED:
        wanted.append(Summary().job(config, experiment=name))
        wanted.append(Gallery().job(config, experiment=name, seed=0))
    return list(upstream(wanted))


def views(config: Config) -> list[Job]:
    figures = [Figure().job(config, figure=name) for name in FIGURES]
    return [Table().job(config, table="tab_fid"), *figures, Report().job(config)]


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Job, set[Function]]]:
    """The functions that each job called. There is a job of every stage."""
    seen: dict[Job, set[Function]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("traced"))
        patch.setattr("rtm.metrics.digits.STEPS", 20)  # of 1,000, because every step calls the same functions
        shutil.copytree(PARAMS, "params")
        config = load("smoke")
        for job in measured(config):
            with tracing(seen.setdefault(job, set())):
                run(job)
        for name in config.experiments:
            if name not in MEASURED:
                fake_results.write_results(config, name, {})
            fake_results.write_gallery(config, name)
            fake_results.write_curves(config, name)
        for job in views(config):
            with tracing(seen.setdefault(job, set())):
                run(job)
        yield seen


def test_every_stage_is_traced(traced: Mapping[Job, set[Function]]) -> None:
    assert {job.stage.name for job in traced} == stages().keys()
    assert all(len(functions) > 5 for functions in traced.values())


def test_a_change_of_any_executed_function_changes_the_hash(traced: Mapping[Job, set[Function]]) -> None:
    code = present()
    roots = {job: code.root(job.code) for job in traced}
    watching = code.reached(
        ["rtm.training.monitor", *EXTRACTORS.values()]
    )  # without selection, no weight depends on it
    functions = {each for called in traced.values() for each in called if not code.is_left_out(each[0])}
    assert len(functions) > 200
    missed = set()
    for function in sorted(functions):
        module, line = function
        changed = Code({**code.modules, module: with_change(code.modules[module], function)}, code.files)
        for job, called in traced.items():
            only_watches = job.stage.name == "train" and module in watching and module not in code.reached(job.code)
            if function in called and not only_watches and changed.root(job.code) == roots[job]:
                missed.add(f"{module}:{line} in {job.id}")
    assert not missed, "\n".join(sorted(missed))


def test_a_change_of_how_a_stage_is_made_changes_the_hash(traced: Mapping[Job, set[Function]]) -> None:
    """The stages' modules are left out, because they find and describe jobs; only `make` counts."""
    code = present()
    for job in traced:
        module = type(job.stage).__module__
        text = code.modules[type(job.stage).__module__]
        line = type(job.stage).make.__code__.co_firstlineno
        assert (module, line) in traced[job]
        changed = Code({**code.modules, module: with_change(text, (module, line))}, code.files)
        assert changed.root(job.code) != code.root(job.code)


def with_change(text: str, function: Function) -> str:
    """The module with one more statement, or another value, in the function that begins at this line."""
    module, line = function
    tree = ast.parse(text)
    for node in ast.walk(tree):
        decorators = [each.lineno for each in getattr(node, "decorator_list", [])]
        if line not in (getattr(node, "lineno", None), *decorators):
            continue
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                node.body.append(ast.parse("raise KeyError").body[0])
            case ast.Lambda():
                node.body = ast.Tuple([node.body], ast.Load())
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                node.elt = ast.Tuple([node.elt], ast.Load())
            case ast.DictComp():
                node.value = ast.Tuple([node.value], ast.Load())
            case _:
                continue
        return ast.unparse(tree)
    pytest.fail(f"{module} has no function at line {line}")


def test_little_is_left_out() -> None:
    """Hashes leave out only code that calls, finds and shows jobs. No number comes from this code."""
    whole = {name for name in LEFT_OUT if name.count(".") == 1}
    assert whole == {"rtm.cli", "rtm.config", "rtm.lineage", "rtm.pipeline", "rtm.stages"}
    assert set(LEFT_OUT) - whole == {
        "rtm.core.advice",
        "rtm.core.errors",
        "rtm.core.files",
        "rtm.core.progress",
        "rtm.core.readers",
        "rtm.core.sealed",
        "rtm.data.download",
        "rtm.data.fetch",
        "rtm.data.parts",
        "rtm.methods.registry",
        "rtm.metrics.extractors",
        "rtm.models.registry",
        "rtm.reports.terminal",
        "rtm.training.cluster",
        "rtm.training.devices",
        "rtm.training.folder",
        "rtm.training.launch",
        "rtm.training.loggers",
    }


DERIVED: dict[str, tuple[str, Any, str]] = {  # computed by config: place, wrong value, and the stage that reads it
    "which number fills a cell": ("reports._section", lambda part: "latency", "table"),
    "how many images a figure shows": ("reports.FigureEntry.images", property(lambda self: 12345), "figure"),
    "at which H samples are drawn": ("parameters.Depth.options", lambda self: {"H": 3}, "evaluate"),
    "how long a training is": ("experiments.Training.total_steps", lambda self, images: 3, "train"),
    "how many samples are measured": ("experiments.Protocol.required", lambda self, name: 63, "evaluate"),
}


@pytest.fixture
def forgetting() -> Iterator[None]:
    yield
    loading._resolved.cache_clear()


@pytest.mark.usefixtures("forgetting")
@pytest.mark.parametrize("fact", DERIVED)
def test_what_config_computes_is_in_the_receipt_by_value(fact: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code of rtm.config is left out of the hash because its values are parameters of the jobs."""
    monkeypatch.chdir(ROOT)
    place, wrong, stage = DERIVED[fact]

    def values() -> dict[str, Any]:
        loading._resolved.cache_clear()
        return {name: job.values for name, job in jobs(load("smoke")).items() if job.stage.name == stage}

    before = values()
    monkeypatch.setattr(f"rtm.config.{place}", wrong)
    after = values()
    assert before.keys() == after.keys()
    assert all(before[name] != after[name] for name in before)
