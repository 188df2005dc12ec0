"""A server that has imported everything and forks for each call, so that many small jobs start fast.

`rtm demo` starts one beside Snakemake. The `rtm` of a rule finds the server's socket in RTM_FORKSERVER and sends its
command line, folder, environment and open files. If there is no server or the code has changed, `rtm` runs alone.
"""

import json
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

SERVE = "--forkserver"  # internal, not for users
PACKAGE = Path(__file__).parents[1]
# the imports of the verbs; optimisers import torch._dynamo, figures fontTools, and sklearn's digits most of sklearn
MODULES = (
    *("rtm.cli.main", "rtm.training.launch", "rtm.methods.imle.method", "rtm.methods.stylegan2.method"),
    *("rtm.metrics.sampling", "rtm.metrics.gallery", "rtm.metrics.evaluate", "rtm.metrics.latency"),
    *("rtm.reports.summary", "rtm.reports.tables", "rtm.reports.figures", "rtm.page.html", "torch._dynamo"),
    *("matplotlib.backends.backend_agg", "matplotlib.backends.backend_pdf", "requests", "sklearn.preprocessing"),
)
# threads do not survive a fork, so libraries in the server must not start any
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
SIZE = struct.Struct("!q")
START = 60.0  # seconds to wait for the server's imports


@contextmanager
def running(environment: Mapping[str, str], folder: Path | None = None) -> Iterator[dict[str, str]]:
    """Start a server, yield the environment in which `rtm` uses it, and end it after the block."""
    import subprocess  # here, because every job waits for `hand_over`, which does not need it
    import tempfile

    with tempfile.TemporaryDirectory(prefix="rtm-forkserver-") as place:
        path = f"{place}/socket"
        command = [sys.executable, "-m", "rtm", SERVE, path]
        server = subprocess.Popen(command, env={**environment, **ONE_THREAD}, cwd=folder, stdin=subprocess.DEVNULL)
        try:
            until = time.monotonic() + START
            while not os.path.exists(path) and server.poll() is None and time.monotonic() < until:  # noqa: PTH110
                time.sleep(0.05)
            yield {**environment, "RTM_FORKSERVER": path}
        finally:
            server.terminate()
            server.wait()


def hand_over(path: str) -> int | None:
    """Run this command line in the server; return its exit code, or None if the server cannot do it."""
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(path)
            message = json.dumps({"words": sys.argv, "folder": str(Path.cwd()), "environment": {**os.environ}}).encode()
            socket.send_fds(connection, [SIZE.pack(len(message))], [0, 1, 2])
            connection.sendall(message)
            worker = _receive(connection)
        except OSError:
            return None
        if not worker:
            return None

        def forward(number: int, frame: FrameType | None) -> None:
            with suppress(ProcessLookupError):
                os.kill(worker, number)

        for number in (signal.SIGTERM, signal.SIGURG):
            signal.signal(number, forward)
        return 1 if (code := _receive(connection)) is None else code  # a killed worker sends no code


def _receive(connection: socket.socket) -> int | None:
    answer = connection.recv(SIZE.size, socket.MSG_WAITALL)
    return SIZE.unpack(answer)[0] if len(answer) == SIZE.size else None


def serve(path: str, run: Callable[[], None]) -> None:
    """Answer calls at a socket: for each call a worker takes the caller's place and calls `run`."""
    from rtm.core.errors import UserError
    from rtm.lineage.fingerprint import present
    from rtm.lineage.versions import preload
    from rtm.pipeline.graph import every_job

    imported = _times()
    for module in MODULES:
        import_module(module)
    present().root(sorted(present().sources))  # parse code and params/ here, not in every worker
    with suppress(UserError):  # the worker will report a mistake in params/
        every_job()
    preload()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended workers disappear without a wait
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # at a Ctrl-C the workers end first, then the owner ends the server
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{path}.new")
        server.listen(64)
        os.rename(f"{path}.new", path)  # noqa: PTH104
        while True:
            connection, _ = server.accept()
            if _times() != imported:
                connection.sendall(SIZE.pack(0))
            elif os.fork() == 0:
                server.close()
                _work(connection, run)
            connection.close()


def _times() -> dict[str, int]:
    """The times of all files of the package. Templates and the page's files count, because fingerprints have them."""
    return {str(file): file.stat().st_mtime_ns for file in PACKAGE.rglob("*.*") if "__pycache__" not in file.parts}


def _work(connection: socket.socket, run: Callable[[], None]) -> None:
    """Take the caller's files, folder and environment, run the caller's command, and send the exit code."""
    header, files, *_ = socket.recv_fds(connection, SIZE.size, 3)
    asked: dict[str, Any] = json.loads(_exactly(connection, SIZE.unpack(header)[0]))
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    for target, file in enumerate(files):
        os.dup2(file, target)
        os.close(file)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])  # with RTM_FORKSERVER, so that commands of this worker can use the server
    sys.argv = asked["words"]
    connection.sendall(SIZE.pack(os.getpid()))
    code = _called(run)
    with suppress(OSError):
        connection.sendall(SIZE.pack(code))
    os._exit(code)


def _exactly(connection: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        parts.append(connection.recv(min(size, 1 << 16)))
        if not parts[-1]:  # the caller ended in the middle of its message
            os._exit(1)
        size -= len(parts[-1])
    return b"".join(parts)


def _called(run: Callable[[], None]) -> int:
    import torch

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1)))
    try:
        run()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0
