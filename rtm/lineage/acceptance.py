"""Keep results after a refactoring: pairs of code hashes that were accepted as the same.

lineage/accepted.jsonl has a line for each: two hashes, the jobs as a pattern, the reason, who and when. Lines of two
branches merge line by line.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from rtm.core.files import write_text
from rtm.core.readers import reading

FILE = Path("lineage/accepted.jsonl")


@dataclass(frozen=True)
class Acceptance:
    """Results of these jobs that were made with one of two codes are also results of the other."""

    jobs: str  # a pattern of ids: desk/train/*
    old: str
    new: str
    reason: str
    author: str
    time: str
    revision: str | None

    def __str__(self) -> str:
        return f"{self.jobs}: code {self.old} is as {self.new}, {self.reason} ({self.author}, {self.time[:10]})"


class Acceptances(tuple[Acceptance, ...]):
    @classmethod
    def read(cls) -> "Acceptances":
        if not FILE.exists():
            return cls()
        with reading(FILE, f"bring it back with `git checkout -- {FILE}`"):
            return cls(Acceptance(**json.loads(line)) for line in FILE.read_text("utf-8").splitlines())

    def of(self, job: str) -> list[Acceptance]:
        return [each for each in self if fnmatchcase(job, each.jobs)]

    def connect(self, job: str, old: str, new: str) -> bool:
        """Whether a chain of accepted pairs leads from one code of a job to another."""
        pairs = [{each.old, each.new} for each in self.of(job)] if old != new else []
        known = {old}
        while new not in known:
            more = set().union(*(pair for pair in pairs if pair & known)) - known
            if not more:
                return False
            known |= more
        return True


def append(acceptances: Iterable[Acceptance]) -> None:
    lines = [*Acceptances.read(), *acceptances]
    write_text(FILE, "".join(f"{json.dumps(asdict(each), sort_keys=True)}\n" for each in dict.fromkeys(lines)))
