"""The order of the tests on several cores, and a check that no test leaves a process behind."""

import compileall
import gc
import os
import py_compile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
import setuptools  # noqa: F401  must come before any import of distutils; otherwise torch's compiler cannot import it
from support import ROOT
from support.processes import none_left

# Some virtual machines report AMX but do not have it. A bfloat16 product is an illegal instruction there.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
gc.set_threshold(50_000, 50, 50)  # otherwise thousands of collections would visit the modules of torch


def pytest_configure(config: pytest.Config) -> None:
    """Compile rtm/ once for all processes and copies. Python checks these files by a hash of the source."""
    if not hasattr(config, "workerinput"):
        checked = py_compile.PycInvalidationMode.CHECKED_HASH
        compileall.compile_dir(ROOT / "rtm", quiet=1, force=True, invalidation_mode=checked)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A worker runs one file after another. The longest files come first, so that all workers end together."""
    seconds: dict[Path, float] = defaultdict(float)
    for item in items:
        if "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow(seconds=2))
        slow = item.get_closest_marker("slow")
        seconds[item.path] += slow.kwargs["seconds"] if slow else 0.1  # part of the time of its file
    items.sort(key=lambda item: -seconds[item.path])
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One worker per core, and one more with slow tests, because the tests on SLURM mostly wait."""
    return len(os.sched_getaffinity(0)) + int(config.option.markexpr != "not slow")


@pytest.fixture(scope="session", autouse=True)
def _no_process_left_by_the_session() -> Iterator[None]:
    with none_left("session"):
        yield


@pytest.fixture(scope="module", autouse=True)
def _no_process_left_by_a_module(request: pytest.FixtureRequest) -> Iterator[None]:
    with none_left(request.node.nodeid):
        yield


@pytest.fixture(autouse=True)
def _no_process_left_by_a_test(request: pytest.FixtureRequest) -> Iterator[None]:
    with none_left(request.node.nodeid):
        yield
