"""What several tests share: the repository they test, and workspaces, servers and results to test with."""

from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
PARAMS = ROOT / "params"
FILES = Path(__file__).parent / "files"
