"""A bad server never gives a wrong or incomplete file; correct parts and files are kept."""

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from multiprocessing.pool import ThreadPool
from pathlib import Path
from urllib.request import Request

import pytest
from support.servers import CONTENT, SUMS, Server, serving

from rtm.core.errors import UserError
from rtm.data import download as module
from rtm.data.download import LARGEST, OVERLAP, TRIES, UnreachableError, _Encrypted, download


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE", 0.001)


def fetched(server: Server, folder: Path, largest: int = LARGEST) -> Path:
    path = folder / "file.zip"
    download(server.url, path, SUMS, largest)
    return path


def part(folder: Path, content: bytes) -> Path:
    path = folder / "file.zip.part"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    "habits",
    [
        ["honest"],
        ["drops", "drops", "honest"],  # continues where it broke
        ["500", "503", "honest"],
        ["mute", "honest"],
        ["deaf and dropping", "deaf"],  # starts again
        ["claims more", "honest"],
        ["drops", "other file", "honest"],  # the overlap differs
        ["drops", "shifts", "honest"],
        ["drops", "416", "honest"],
        ["drops", "drops", "drops", "drops", "drops", "drops", "drops", "drops", "honest"],  # each brings some bytes
    ],
    ids=", ".join,
)
def test_the_file_comes_in_the_end(tmp_path: Path, habits: list[str]) -> None:
    with serving(CONTENT, *habits) as server:
        path = fetched(server, tmp_path)
        assert path.read_bytes() == CONTENT
        asked = len(server.asked)
        fetched(server, tmp_path)
    assert len(server.asked) == asked  # not downloaded again
    assert not path.with_name("file.zip.part").exists()


def test_a_broken_download_goes_on_in_the_next_run(tmp_path: Path) -> None:
    with serving(CONTENT, "drops", "404") as server, pytest.raises(UserError, match="answers 404"):
        fetched(server, tmp_path)
    assert (tmp_path / "file.zip.part").read_bytes() == CONTENT[:500_000]
    with serving(CONTENT, "honest") as server:
        assert fetched(server, tmp_path).read_bytes() == CONTENT
    assert server.asked == [f"bytes={500_000 - OVERLAP}-"]


def test_a_part_that_is_whole_needs_its_end_alone(tmp_path: Path) -> None:
    part(tmp_path, CONTENT)
    with serving(CONTENT, "honest") as server:
        assert fetched(server, tmp_path).read_bytes() == CONTENT
    assert server.asked == [f"bytes={len(CONTENT) - OVERLAP}-"]


@pytest.mark.parametrize("content", [bytes(700_000), bytes(1_200_000), b"x" + CONTENT[1:600_000]])
def test_a_part_of_another_file_is_replaced(tmp_path: Path, content: bytes) -> None:
    """The overlap shows that the first two are others, the checksum shows it of the last one."""
    part(tmp_path, content)
    with serving(CONTENT, "honest") as server:
        assert fetched(server, tmp_path).read_bytes() == CONTENT
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("habit", "message"),
    [
        ("404", "answers 404 Not Found"),
        ("500", r"broke off \(500 Internal"),
        ("mute", "broke off"),
        ("login", "web page .* in place of the file"),
        ("disguised login", "web page"),
        ("204", "answers 204 No Content"),
        ("206", "answers 206"),
        ("empty", "answers with an empty file"),
        ("to ftp://example.org/x", "which is no web address"),
        ("to /file.zip", "infinite loop"),
        ("claims less", "gave a file whose sha256 is"),
        ("other file", "gave a file whose sha256 is"),
        (
            "deaf and dropping",
            r"broke off after 0\.5 MB, from where the next run goes on \(it ended after 500,000 of 1,000,000 bytes",
        ),
    ],
)
def test_no_file_but_a_sentence(tmp_path: Path, habit: str, message: str) -> None:
    with serving(CONTENT, habit) as server, pytest.raises(UnreachableError, match=message) as caught:
        fetched(server, tmp_path)
    assert server.url in str(caught.value)
    assert "\n" not in str(caught.value)
    left = {path.name for path in tmp_path.iterdir()} - {".file.zip.lock"}
    assert left == ({"file.zip.part"} if habit == "deaf and dropping" else set())


@pytest.mark.parametrize(
    ("habit", "message"),
    [
        ("endless", "sends 3 MB or more, and 3 MB is the most that is taken"),
        ("drops and changes", "broke off .*another file than before"),
    ],
)
def test_a_server_without_an_end_is_left(tmp_path: Path, habit: str, message: str) -> None:
    with serving(CONTENT, habit) as server, pytest.raises(UnreachableError, match=message):
        fetched(server, tmp_path, largest=3_000_000)
    assert len(server.asked) <= 2 * TRIES


def test_more_than_is_expected_is_not_even_begun(tmp_path: Path) -> None:
    with serving(CONTENT, "honest") as server, pytest.raises(UnreachableError, match="sends 1 MB or more"):
        fetched(server, tmp_path, largest=len(CONTENT) - 1)
    assert not list(tmp_path.glob("file*"))
    with serving(CONTENT, "honest") as server:
        fetched(server, tmp_path, largest=len(CONTENT))


def test_a_redirect_stays_encrypted() -> None:
    """Also https -> http -> https: somebody could have changed the unencrypted answer."""

    def follow(begin: str, to: str) -> Request | None:
        return _Encrypted().redirect_request(Request(begin), BytesIO(), 302, "Found", {}, to)

    with pytest.raises(UnreachableError, match="https://a/x redirects to http://b/x, which is not encrypted"):
        follow("https://a/x", "http://b/x")
    for begin in ("https://a/x", "http://a/x"):
        followed = follow(begin, "https://b/x")
        assert followed
        assert followed.full_url == "https://b/x"


def test_a_login_page_spares_what_came_before(tmp_path: Path) -> None:
    part(tmp_path, CONTENT[:600_000])
    with serving(CONTENT, "login") as server, pytest.raises(UserError):
        fetched(server, tmp_path)
    assert (tmp_path / "file.zip.part").read_bytes() == CONTENT[:600_000]


def test_a_server_that_falls_silent_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT", 0.3)
    with serving(CONTENT, "stalls", "honest") as server:
        assert fetched(server, tmp_path).read_bytes() == CONTENT


def test_no_network_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match=r"http://127\.0\.0\.1:9/x cannot be reached \(.*refused"):
        download("http://127.0.0.1:9/x", tmp_path / "x", {})


def test_a_full_disk_is_one_sentence_and_keeps_what_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def filling(description: str, total: int) -> Iterator[object]:
        def report(done: int) -> None:
            if (tmp_path / "file.zip.part").stat().st_size > 2 * OVERLAP:
                raise OSError(errno.ENOSPC, "No space left on device")

        yield report

    with serving(CONTENT, "honest") as server:
        with monkeypatch.context() as patch, pytest.raises(UserError, match=r"disk of .* is full; free 0\.001 GB"):
            patch.setattr(module, "progress", filling)
            fetched(server, tmp_path)
        kept = (tmp_path / "file.zip.part").stat().st_size
        assert kept > OVERLAP
        assert fetched(server, tmp_path).read_bytes() == CONTENT
        assert server.asked == [None, f"bytes={kept - OVERLAP}-"]


def test_a_disk_too_small_is_found_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 10}))
    with serving(CONTENT, "honest") as server, pytest.raises(UserError, match="is full"):
        fetched(server, tmp_path)
    assert not list(tmp_path.glob("file*"))


def test_a_killed_download_goes_on(tmp_path: Path) -> None:
    script = "import sys; from pathlib import Path; from rtm.data.download import download\n"
    script += f"download(sys.argv[1], Path(sys.argv[2]), {SUMS!r})"
    path = tmp_path / "file.zip"
    with serving(CONTENT, "stalls", "honest") as server:
        with subprocess.Popen([sys.executable, "-c", script, server.url, str(path)]) as process:
            while not ((part := tmp_path / "file.zip.part").exists() and part.stat().st_size == 500_000):
                assert process.poll() is None
                time.sleep(0.01)
            os.kill(process.pid, signal.SIGKILL)
        assert not path.exists()
        assert fetched(server, tmp_path).read_bytes() == CONTENT
        assert server.asked == [None, f"bytes={500_000 - OVERLAP}-"]


def test_two_at_once_download_once(tmp_path: Path) -> None:
    with serving(CONTENT, "drops", "honest") as server, ThreadPool(4) as pool:
        paths = pool.map(lambda _: fetched(server, tmp_path), range(4))
    assert paths[0].read_bytes() == CONTENT
    assert len(server.asked) == 2
