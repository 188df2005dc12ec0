"""Run scripts in separate processes, forked from one that has torch already, because its import takes 5 CPU seconds."""

import multiprocessing
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess

from support import TESTS
from support.processes import free_ports


class Forks:
    def __init__(self) -> None:
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(["torch._dynamo", "rtm.methods.registry"])
        forkserver.ensure_running()  # start it now, so that it belongs to the fixture and not to a test

    def start(self, script: str, *arguments: str, **variables: str) -> ForkServerProcess:
        """Start `python -c script arguments`, with these variables in its environment."""
        process = self.context.Process(target=_execute, args=(script, arguments, variables))
        process.start()
        return process

    def run_two(self, script: str, *arguments: str) -> None:
        """Run a script in a group of two processes; both must end without an error."""
        group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_ports(1)[0]), "WORLD_SIZE": "2"}
        pair = [self.start(script, *arguments, **group, RANK=str(rank)) for rank in range(2)]
        for process in pair:
            process.join(300)
        assert [process.exitcode for process in pair] == [0, 0]


@contextmanager
def forking() -> Iterator[Forks]:
    try:
        yield Forks()
    finally:
        forkserver._forkserver._stop()  # type: ignore[attr-defined]


def _execute(script: str, arguments: Sequence[str], variables: Mapping[str, str]) -> None:
    import torch

    torch.set_num_threads(1)
    os.environ.update(variables)
    sys.path.insert(0, str(TESTS))
    sys.argv = ["-c", *arguments]
    exec(script, {"__name__": "__main__"})
