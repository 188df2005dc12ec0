"""Order and grouping of the tests on several cores, and no process left behind by any of them."""

import os
from collections import defaultdict
from collections.abc import Iterator

import pytest
from support.processes import none_left


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker runs a file, or a group marked within one; the longest groups start first."""
    seconds: dict[str, float] = defaultdict(float)
    for item in items:
        if "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow(seconds=2))
        if not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.split("::")[0]))
        slow = item.get_closest_marker("slow")
        seconds[_group(item)] += slow.kwargs.get("seconds", 5.0) if slow else 0.1
    items.sort(key=lambda item: -seconds[_group(item)])


def pytest_xdist_auto_num_workers() -> int:
    """One more than cores: the tests on SLURM wait most of the time."""
    return len(os.sched_getaffinity(0)) + 1


def _group(item: pytest.Item) -> str:
    marker = item.get_closest_marker("xdist_group")
    assert marker is not None
    return str(marker.args[0])


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
