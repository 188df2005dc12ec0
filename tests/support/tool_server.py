"""Snakemake, DVC and the stand-in's `rtm` for tests that start them many times: one process imports and forks.

A fork has the caller's arguments, folder, environment and open files, and imports the `rtm` of the caller's folder: the
server has imported none. Signals of the caller are not passed on.
"""

import atexit
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

PLACE = "RTM_TEST_TOOLS"  # the server's socket; without it, a tool starts as usual
SIZE = struct.Struct("!q")
PROGRAMS = {"snakemake": "snakemake.cli", "dvc": "dvc.cli", "rtm": "support.standin"}  # where their `main` is
# what every call of theirs imports; no pygit2, which asks once for the home of whoever imports it
PRELOADED = (
    *("snakemake.cli", "dvc.cli.parser", "dvc.repo", "dvc.repo.index", "dvc.lock", "dvc.rwlock", "dvc.scm"),
    *("dvc.repo.plots", "dvc.utils.strictyaml", "ruamel.yaml", "dulwich.repo", "pydantic", "yaml", "rich.live"),
)
CLIENT = """\
#!{python} -S
import json, os, socket, struct, sys
place, size, real = os.environ.get({place!r}), struct.Struct("!q"), {real!r}
if not place:
    os.execv(real[0], [*real, *sys.argv[1:]])
connection = socket.socket(socket.AF_UNIX)
connection.connect(place)
asked = {{"program": {program!r}, "words": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ)}}
message = json.dumps(asked).encode()
socket.send_fds(connection, [size.pack(len(message))], [0, 1, 2])
connection.sendall(message)
answer = connection.recv(size.size, socket.MSG_WAITALL)
sys.exit(size.unpack(answer)[0] if answer else 1)
"""


def write_client(path: Path, *real: str) -> None:
    """A program that asks the server, if there is one, and else is `real`."""
    command = real or (str(Path(sys.executable).with_name(path.name)),)
    path.write_text(CLIENT.format(python=sys.executable, place=PLACE, program=path.name, real=command))
    path.chmod(0o755)


@contextmanager
def tools() -> Iterator[None]:
    """A server for all clients that are started within."""
    from support.waiting import wait_for

    with tempfile.TemporaryDirectory(prefix="tools-") as folder:
        path = Path(folder) / "socket"
        server = subprocess.Popen([sys.executable, __file__, str(path)], stdin=subprocess.DEVNULL)
        try:
            wait_for(lambda: path.exists() or server.poll() is not None, lambda: None)
            os.environ[PLACE] = str(path)
            yield
        finally:
            os.environ.pop(PLACE, None)
            server.terminate()
            server.wait()


def serve(path: str) -> None:
    for module in PRELOADED:
        import_module(module)
    imported = {name.split(".")[0] for name in sys.modules}
    assert not imported & {"rtm", "pygit2"} and threading.active_count() == 1  # a fork has one thread
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{path}.new")
        server.listen(16)
        os.rename(f"{path}.new", path)  # noqa: PTH104
        while True:
            connection, _ = server.accept()
            if os.fork() == 0:
                server.close()
                _work(connection)
            connection.close()


def _work(connection: socket.socket) -> None:
    header, files, *_ = socket.recv_fds(connection, SIZE.size, 3)
    (size,) = SIZE.unpack(header)
    asked = json.loads(connection.recv(size, socket.MSG_WAITALL))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for target, file in enumerate(files):
        os.dup2(file, target)
        os.close(file)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv = [asked["program"], *asked["words"]]
    sys.path[:1] = os.environ.get("PYTHONPATH", "").split(":")  # in place of this file's folder
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    code = _called(import_module(PROGRAMS[asked["program"]]).main, asked)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    connection.sendall(SIZE.pack(code))
    os._exit(code)


def _called(main: Callable[..., int | None], asked: dict[str, Sequence[str]]) -> int:
    """The exit code; Snakemake ends itself, DVC returns the code, the stand-in is given its words."""
    try:
        return main(*(asked["words"] if asked["program"] == "rtm" else ())) or 0
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1


if __name__ == "__main__":
    serve(sys.argv[1])
