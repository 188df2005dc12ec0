"""Code that several tests share: the tested repository, and workspaces, servers and results for tests."""

from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
PARAMS = ROOT / "params"
FILES = Path(__file__).parent / "files"
