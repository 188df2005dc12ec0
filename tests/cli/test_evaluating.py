"""`rtm evaluate` of any images: it refuses before hours of work."""

from pathlib import Path

from support import PARAMS
from support.command import rtm


def test_a_place_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    """The refusal comes before the search for the images, which do not exist here."""
    (tmp_path / "params").symlink_to(PARAMS)
    (tmp_path / "file").touch()
    words = ("evaluate", "fakes.npy", "digits", "--protocol", "digits", "--scale", "demo", "--json")
    for place, said in {"file/x.json": "cannot be written", ".": "is a folder", "/proc/x.json": "cannot be"}.items():
        answer = rtm(*words, place, cwd=tmp_path)
        assert answer.returncode == 1 and f"{place} {said}" in answer.stderr
    assert "fakes.npy is neither a file" in rtm(*words, "x.json", cwd=tmp_path).stderr
