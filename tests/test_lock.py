"""requirements.lock fits pyproject.toml: all requirements, in allowed versions, and a hash for each file."""

import re
import tomllib
from collections.abc import Iterator

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from support import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
LOCK = (ROOT / "requirements.lock").read_text("utf-8")
ENTRY = re.compile(r"^([a-z0-9.-]+)==(\S+?)( ; [^\\\n]+)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.M)
PINS = {(canonicalize_name(name), Version(version)) for name, version, _, _ in ENTRY.findall(LOCK)}


def asked(requirements: list[str]) -> Iterator[Requirement]:
    """The requirements, with those of the extras that they name."""
    for each in map(Requirement, requirements):
        if each.name == PROJECT["name"]:
            for extra in sorted(each.extras):  # the same order in all processes
                yield from asked(EXTRAS[extra])
        else:
            yield each


def test_nothing_but_pinned_files_with_hashes_is_in_it() -> None:
    assert len(PINS) > 100
    assert all(line.startswith("#") for line in ENTRY.sub("", LOCK).splitlines())


@pytest.mark.parametrize("requirement", [*asked([*PROJECT["dependencies"], *EXTRAS["dev"]])], ids=str)
def test_a_direct_requirement_is_in_it(requirement: Requirement) -> None:
    found = [version for name, version in PINS if name == canonicalize_name(requirement.name)]
    assert found and all(requirement.specifier.contains(version) for version in found), "run `make lock`"


def test_the_search_on_a_gpu_is_of_the_same_version() -> None:
    text = (ROOT / "requirements.gpu.lock").read_text("utf-8")
    pins = {name: version for name, version, _, _ in ENTRY.findall(text)}
    assert all(line.startswith("#") for line in ENTRY.sub("", text).splitlines())
    assert ("faiss-cpu", Version(pins.pop("faiss-gpu"))) in PINS
    shared = {name: version for name, version in pins.items() if not name.startswith("nvidia")}
    assert {(name, Version(version)) for name, version in shared.items()} <= PINS


def test_the_tests_need_every_extra() -> None:
    """`make install` installs `dev`, so `dev` includes every extra."""
    named = {requirement.name for requirement in asked(EXTRAS["dev"])}
    assert named >= {each.name for extra in EXTRAS.values() for each in asked(extra)}


def test_the_builder_of_the_package_is_in_it() -> None:
    """So the build downloads nothing without a hash."""
    (needed,) = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]["requires"]
    assert any(name == "setuptools" and Requirement(needed).specifier.contains(version) for name, version in PINS)
