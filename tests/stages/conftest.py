"""The jobs of all scales, and the demo with one value changed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import PARAMS, ROOT

from rtm.config import load
from rtm.stages.base import Job
from rtm.stages.graph import every_job, jobs

Differing = Callable[..., set[str]]


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.fixture(scope="session")
def graph() -> dict[str, Job]:
    return every_job(PARAMS)


@pytest.fixture
def differing(tmp_path: Path) -> Differing:
    """A function that changes one value of params/; the stages of the demo that read it."""

    def stages(section: str, *path: str, to: Any) -> set[str]:
        for file in PARAMS.glob("*.yaml"):
            content = yaml.safe_load(file.read_text("utf-8"))
            place = content.get(section, {})
            for key in path[:-1] if section in content else ():
                place = place[key]
            if section in content:
                place[path[-1]] = to
            (tmp_path / file.name).write_text(yaml.safe_dump(content), "utf-8")
        before = jobs(load("demo", PARAMS))
        after = jobs(load("demo", tmp_path))
        return {before[name].stage.name for name in before if before[name].values != after[name].values}

    return stages
