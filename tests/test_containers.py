"""Dockerfile and apptainer.def: well formed, the same commands in both, and every command, option and file exists.

These tests do not build an image, because that needs a container engine.
"""

import json
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from support import ROOT

from rtm.cli.main import parser

INSTRUCTIONS = {"FROM", "RUN", "WORKDIR", "COPY", "CMD"}
SECTIONS = {"files", "post", "runscript", "test"}
DEBIAN = {"apt-get": ("update", "install"), "rm": ("-rf",)}  # commands of the base image


def docker() -> list[tuple[str, str]]:
    """The instructions, with continued lines joined."""
    text = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text("utf-8"))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines]


def apptainer() -> tuple[dict[str, str], dict[str, list[str]]]:
    """The header and the sections."""
    text = "\n".join(
        line for line in (ROOT / "apptainer.def").read_text("utf-8").splitlines() if not line.startswith("#")
    )
    head, *parts = re.split(r"^%(?=\w)", text, flags=re.M)
    header = dict(line.split(": ", 1) for line in head.strip().splitlines())
    named = (part.split("\n", 1) for part in parts)
    return header, {name: [line.strip() for line in body.strip().splitlines()] for name, body in named}


def commands(lines: list[str]) -> list[list[str]]:
    found = [shlex.split(each) for line in lines for each in line.split("&&")]
    return [each for each in found if each[0] != "cd"]


def test_both_are_well_formed() -> None:
    instructions = docker()
    assert instructions[0][0] == "FROM"
    assert instructions[-1][0] == "CMD"
    assert {name for name, _ in instructions} <= INSTRUCTIONS
    header, sections = apptainer()
    assert header["Bootstrap"] == "docker"
    assert sections.keys() == SECTIONS
    assert header["From"] == instructions[0][1]
    for part in ("post", "runscript", "test"):
        subprocess.run(["sh", "-n"], input="\n".join(sections[part]), text=True, check=True)


def test_both_do_the_same() -> None:
    ours = commands([rest for name, rest in docker() if name == "RUN"])
    assert ours == commands(apptainer()[1]["post"])
    assert len(ours) == 8


def test_every_command_and_option_exists() -> None:
    for program, *rest in commands([rest for name, rest in docker() if name == "RUN"]):
        if program == "pip":
            subprocess.run([sys.executable, "-m", "pip", *rest, "--help"], capture_output=True, check=True)
            assert rest[0] == "uninstall" or "--no-build-isolation" in rest or "--require-hashes" in rest
        elif program == "git":
            assert rest[:2] == ["config", "--system"]
        else:
            assert rest[0] in DEBIAN[program]
    program, *words = json.loads(docker()[-1][1])
    assert program == "rtm"
    assert shutil.which("rtm")
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(words)
    assert not ended.value.code


def test_every_file_is_there_and_reaches_the_builder() -> None:
    copied = [file for name, rest in docker() if name == "COPY" for file in rest.split()[:-1]]
    files = [line.split()[0] for line in apptainer()[1]["files"]]
    assert sorted(copied) == sorted(files)
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")]
    assert sorted(allowed) == sorted(files)
    assert all((ROOT / file).exists() for file in files)
    assert 'readme = "README.md"' in (ROOT / "pyproject.toml").read_text("utf-8")


def test_the_base_is_the_python_that_is_tested() -> None:
    version = re.search(r"python_version = \"(.*)\"", (ROOT / "pyproject.toml").read_text("utf-8"))
    assert version
    assert docker()[0][1].startswith(f"python:{version[1]}-")
    examples = re.findall(r"rtm rtm (.*?)(?: {2,}#|$)", (ROOT / "Dockerfile").read_text("utf-8"), re.M)
    assert len(examples) == 2
    for words in examples:
        parser().parse_args(words.split())
