"""Checkpoints by address: downloaded once and completely, and each refusal is one sentence."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import torch
from support import checkpoints, smoke_workspace
from support.checkpoints import IMLE
from support.servers import CONTENT, serving

import rtm
from rtm.checkpoints.addresses import local
from rtm.core.errors import UserError
from rtm.models.drawing import draw


class Answer(BaseHTTPRequestHandler):
    content = b""
    claimed = 0
    asked = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        if self.path.startswith("/absent"):
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(self.claimed))
        self.end_headers()
        self.wfile.write(self.content)

    def log_message(self, *_: object) -> None:
        pass


def test_a_checkpoint_by_address_is_downloaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = checkpoints.write(tmp_path / "w.safetensors", IMLE)
    expected = draw(network, smoke_workspace.experiment(IMLE).architecture, 0, torch.arange(1))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("rtm.data.download.PAUSE", 0.001)
    Answer.content = (tmp_path / "w.safetensors").read_bytes()
    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            address = f"http://127.0.0.1:{server.server_port}"
            Answer.claimed = len(Answer.content) + 5
            with pytest.raises(UserError, match=r"broke off after .* \(it ended after .* bytes\); correct the address"):
                rtm.load(f"{address}/w.safetensors")
            Answer.claimed = len(Answer.content)
            before = Answer.asked
            for _ in range(2):
                assert torch.equal(rtm.load(f"{address}/w.safetensors", "cpu")(), expected)
            assert Answer.asked == before + 1
            with pytest.raises(UserError, match="absent answers 404 Not Found; correct the address"):
                rtm.load(f"{address}/absent")
        finally:
            server.shutdown()
            thread.join()


def test_an_address_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    huggingface_hub = pytest.importorskip("huggingface_hub")
    checkpoints.write(tmp_path / "w.safetensors", IMLE)
    asked = []

    def hf_hub_download(repo_id: str, filename: str, *, revision: str | None = None) -> str:
        asked.append((repo_id, filename, revision))
        if filename == "absent":
            raise FileNotFoundError("404: no such file\nwith a long story")
        return str(tmp_path / "w.safetensors")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", hf_hub_download)
    rtm.load("hf://owner/name/folder/w.safetensors", "cpu")
    rtm.load("hf://owner/name@v1/w.safetensors", "cpu")
    with pytest.raises(UserError, match=r"hf://owner/name/absent cannot be fetched \(404: no such file\); correct it"):
        rtm.load("hf://owner/name/absent")
    assert asked[:2] == [("owner/name", "folder/w.safetensors", None), ("owner/name", "w.safetensors", "v1")]
    with pytest.raises(UserError, match="write hf://owner/name/file or hf://owner/name@revision/file"):
        rtm.load("hf://owner")


def test_a_path_is_itself_whether_it_exists_or_not(tmp_path: Path) -> None:
    assert local(tmp_path / "w.safetensors") == local(str(tmp_path / "w.safetensors")) == tmp_path / "w.safetensors"


def test_files_of_one_name_from_two_addresses_are_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with serving(CONTENT, "whole") as one, serving(CONTENT[::-1], "whole") as other:
        paths = [local(url) for url in (one.url, other.url, f"{one.url}?download=1", one.url)]
    assert [path.read_bytes() == CONTENT for path in paths] == [True, False, True, True]
    assert len(set(paths)) == 3 == len(list((tmp_path / "rtm").glob("[!.]*")))
    assert all(path.name.endswith("-file.zip") for path in paths)
