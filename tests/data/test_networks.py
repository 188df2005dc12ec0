"""Frozen networks: only the intended file is taken."""

from pathlib import Path

import pytest
import torch
from support.networks import offer, state

from rtm.config.experiments import Source
from rtm.core.errors import UserError
from rtm.core.files import digest
from rtm.core.readers import checkpoint_metadata
from rtm.data.fetch import fetch_network
from rtm.data.networks import NETWORKS
from rtm.data.weights import load_network


def test_a_given_file_is_checked_converted_and_explains_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = state(tmp_path / "given.pth")
    out = tmp_path / "weights" / "inception.safetensors"
    offer(monkeypatch, Source(url="https://example.org/given.pth", sha256=digest(given)))
    fetch_network("inception", out, tmp_path, given)
    assert load_network(out)["a.weight"].equal(torch.arange(6.0).reshape(2, 3).T)
    assert set(load_network(out)) == {"a.weight"}
    assert checkpoint_metadata(out) == {"sha256": digest(given), "source": "https://example.org/given.pth"}
    given.write_bytes(given.read_bytes() + b"x")
    with pytest.raises(UserError, match=r"sha256 .* none of given\.pth"):
        fetch_network("inception", out, tmp_path, given)
    with pytest.raises(UserError, match="does not exist"):
        fetch_network("inception", out, tmp_path, tmp_path / "absent")
    with pytest.raises(UserError, match=r"is a folder; give the file given\.pth"):
        fetch_network("inception", out, tmp_path, tmp_path)


def test_the_table_is_complete() -> None:
    for network in NETWORKS.values():
        first, *others = network.sources
        assert first.origin.startswith("https://")
        part_of_sha256 = Path(first.name).stem.rpartition("-")[2]
        assert str(first.sha256).startswith(part_of_sha256) or network is NETWORKS["dinov2"]  # its name has no hash
        assert all(source.sha256 for source in network.sources)
        assert all(source.url or "==" in str(source.pip) for source in others)
