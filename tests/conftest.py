"""The order of the tests on several cores, and no process left behind by any of them."""

import compileall
import gc
import os
import py_compile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
import setuptools  # noqa: F401  before anything imports distutils, or torch's compiler cannot import it
from support import ROOT
from support.processes import none_left

# Some virtual machines name AMX and do not have it: a product in bfloat16 is an illegal instruction there.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
gc.set_threshold(50_000, 50, 50)  # thousands of collections would look at the modules of torch


def pytest_configure(config: pytest.Config) -> None:
    """Compile rtm/ once for all processes and copies; a hash of the source tells whether such a file is up to date."""
    if not hasattr(config, "workerinput"):
        checked = py_compile.PycInvalidationMode.CHECKED_HASH
        compileall.compile_dir(ROOT / "rtm", quiet=1, force=True, invalidation_mode=checked)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A worker runs one file after the other: those that take longest come first, so that all end together."""
    seconds: dict[Path, float] = defaultdict(float)
    for item in items:
        if "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow(seconds=2))
        slow = item.get_closest_marker("slow")
        seconds[item.path] += slow.kwargs["seconds"] if slow else 0.1  # its share of what the file takes
    items.sort(key=lambda item: -seconds[item.path])
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One more than cores where slow tests run: those on SLURM wait most of the time."""
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
