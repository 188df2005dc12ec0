"""Snakemake for tests that start it many times: one process imports it and forks for each call.

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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PLACE = "RTM_TEST_SNAKEMAKE"  # the server's socket; without it, Snakemake starts as usual
SIZE = struct.Struct("!q")
CLIENT = """\
#!{python} -S
import json, os, socket, struct, sys
place, size = os.environ.get({place!r}), struct.Struct("!q")
if not place:
    os.execv({real!r}, [{real!r}, *sys.argv[1:]])
connection = socket.socket(socket.AF_UNIX)
connection.connect(place)
asked = json.dumps({{"words": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ)}}).encode()
socket.send_fds(connection, [size.pack(len(asked))], [0, 1, 2])
connection.sendall(asked)
answer = connection.recv(size.size, socket.MSG_WAITALL)
sys.exit(size.unpack(answer)[0] if answer else 1)
"""


def write_client(path: Path) -> None:
    """A `snakemake` that asks the server, if there is one."""
    real = str(Path(sys.executable).with_name("snakemake"))
    path.write_text(CLIENT.format(python=sys.executable, place=PLACE, real=real))
    path.chmod(0o755)


@contextmanager
def snakemake() -> Iterator[None]:
    """A server for all clients that are started within."""
    from support.waiting import wait_for

    with tempfile.TemporaryDirectory(prefix="snakemake-") as folder:
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
    from snakemake.cli import main

    assert not any(name.split(".")[0] == "rtm" for name in sys.modules)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{path}.new")
        server.listen(16)
        os.rename(f"{path}.new", path)  # noqa: PTH104
        while True:
            connection, _ = server.accept()
            if os.fork() == 0:
                server.close()
                _work(connection, main)
            connection.close()


def _work(connection: socket.socket, main: Callable[[], None]) -> None:
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
    sys.argv = ["snakemake", *asked["words"]]
    sys.path[:1] = os.environ.get("PYTHONPATH", "").split(":")  # in place of this file's folder
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    code = 1
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    connection.sendall(SIZE.pack(code))
    os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1])
