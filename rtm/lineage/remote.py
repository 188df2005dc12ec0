"""The DVC remote as a store: a folder, S3, SSH or anything else that DVC's own file systems can reach.

Each process lists the remote once. If the remote does not answer, a message is printed, and it counts as empty.
"""

import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from rtm.core.errors import UserError
from rtm.core.files import UNREADABLE, temporary_of
from rtm.lineage.definitions import Graph

PATIENCE = 10.0  # seconds to wait for the list of entries, and for an entry
INDEX, CODE, OBJECTS = "rtm/index", "rtm/code", "files/md5"

T = TypeVar("T")


class Remote:
    def __init__(self) -> None:
        self.reason: str | None = None  # why it is not asked any more

    @cached_property
    def files(self) -> list[str]:
        """The names of its entries."""
        return sorted(self._asked(self._list) or [])

    def text(self, entry: str) -> str | None:
        return self._asked(lambda: self._read(f"{INDEX}/{entry}"))

    def graph(self, code: str) -> Graph | None:
        text = self._asked(lambda: self._read(f"{CODE}/{code}.json"))
        with suppress(*UNREADABLE):
            graph = Graph.of(text or "")
            return graph if graph.root == code and graph.follows() else None
        return None

    def get(self, md5: str, target: Path) -> None:
        """Fetch an object, if it is there; the caller must check its bytes."""
        if self.reason:
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = temporary_of(target)
        try:
            self._files.get_file(self._path(f"{OBJECTS}/{md5[:2]}/{md5[2:]}"), str(temporary))
            temporary.chmod(0o444)
            temporary.replace(target)
        except Exception as error:
            self._give_up(error)
        finally:
            temporary.unlink(missing_ok=True)

    def put(self, path: Path, name: str) -> bool:
        """Upload a file unless the remote has it; return whether it was uploaded. A failure raises an error."""
        try:
            if self._files.exists(self._path(name)):
                return False
            self._files.makedirs(self._files.parent(self._path(name)))
            self._files.put_file(str(path), self._path(name))
        except Exception as error:
            raise UserError(f"The DVC remote cannot be written: {_sentence(error)}.") from None
        return True

    @cached_property
    def _odb(self) -> Any:
        from dvc.repo import Repo

        return Repo().cloud.get_remote_odb()

    @property
    def _files(self) -> Any:
        return self._odb.fs

    def _path(self, name: str) -> str:
        root = self._files.parent(self._files.parent(self._odb.path))
        return str(self._files.join(root, *name.split("/")))

    def _list(self) -> list[str]:
        with suppress(FileNotFoundError):  # nothing was pushed yet
            return [str(path).rsplit("/", 1)[-1] for path in self._files.ls(self._path(INDEX), detail=False)]
        return []

    def _read(self, name: str) -> str:
        with self._files.open(self._path(name), "r") as file:
            return str(file.read())

    def _asked(self, question: Callable[[], T]) -> T | None:
        """The answer to a question; None if it fails or takes too long."""
        if self.reason:
            return None
        answers: list[T] = []
        errors: list[Exception] = []

        def ask() -> None:
            try:
                answers.append(question())
            except Exception as error:
                errors.append(error)

        thread = threading.Thread(target=ask, daemon=True)  # a hanging thread does not keep the process alive
        thread.start()
        thread.join(PATIENCE)
        if not answers:
            self._give_up(errors[0] if errors else TimeoutError(f"no answer in {PATIENCE:.0f} s"))
        return answers[0] if answers else None

    def _give_up(self, error: Exception) -> None:
        self.reason = _sentence(error)
        print(f"The DVC remote is not asked for results: {self.reason}.", file=sys.stderr)


def _sentence(error: Exception) -> str:
    first = (str(error).splitlines() or [""])[0].rstrip(".")
    return f"{type(error).__name__}{f': {first}' if first else ''}"
