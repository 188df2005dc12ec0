"""Start Snakemake, DVC and the stand-in's `rtm` many times: one server process imports them and forks for each call.

A fork has the caller's arguments, folder, environment and open files. The server itself imports no `rtm`. For each
version of `rtm`, it forks a process that imports the `rtm` of the caller's folder; this process forks for each call
until a file of `rtm` changes. Signals of the caller are not passed on.
"""

import atexit
import gc
import marshal
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter
from pathlib import Path

PLACE = "RTM_TEST_TOOLS"  # the server's socket; without it, a tool starts as usual
SIZE = struct.Struct("=q")
PROGRAMS = {"snakemake": "snakemake.cli", "dvc": "dvc.cli", "rtm": "support.standin"}  # the modules of their `main`
# modules that every call of the programs imports; not pygit2, which reads the home folder only once, at its import
PRELOADED = {
    "snakemake": (
        *("snakemake.cli", "snakemake.storage", "snakemake.assets", "smart_open", "PIL.Image", "pydantic", "yaml"),
        *("rich.live", "rich.progress", "safetensors"),
    ),
    "dvc": (
        *("dvc.cli.parser", "dvc.repo", "dvc.repo.index", "dvc.lock", "dvc.rwlock", "dvc.scm", "dvc.repo.plots"),
        *("dvc.utils.strictyaml", "dvc.repo.stage", "dvc.repo.params", "dvc.repo.metrics", "dvc.repo.datasets"),
        *("dvc.repo.artifacts", "dvc._debug", "dvc.repo.open_repo", "dvc.cachemgr", "dvc.data_cloud"),
        *("dvc.repo.trie", "dvc.repo.graph", "dvc.repo.brancher", "dvc_data.hashfile.db.local"),
        *("dvc_data.hashfile.status", "dvc_data.hashfile.db.index", "dvc_data.index.fetch", "dvc_data.index.push"),
        *("dvc_data.index.collect", "dvc_data.index.checkout", "dulwich.repo", "dulwich.worktree", "dulwich.ignore"),
        *("dulwich.index", "ruamel.yaml", "configobj", "platformdirs.unix", "pyparsing", "networkx"),
        "fsspec.implementations.memory",
    ),
}
PARSERS = {"snakemake": "get_argument_parser", "dvc": "parser.get_main_parser"}  # calling these loads plugins
CODE = ("rtm.cli.main", "rtm.stages.graph", "rtm.pipeline.dvc", "rtm.pipeline.snakemake")  # for most calls
INSTALLED = sys.path[1:]  # without this file's folder
KEPT = 3  # most versions of `rtm` that are ready at once
# few imports, because it starts hundreds of times
CLIENT = """\
#!{python} -S
import _socket, marshal, posix, sys
place, real = posix.environ.get({place!r}), {real!r}
if not place:
    posix.execv(real[0], [*real, *sys.argv[1:]])
connection = _socket.socket(_socket.AF_UNIX)
connection.connect(place)
message = marshal.dumps(({program!r}, sys.argv[1:], posix.getcwd(), posix.environ))
files = b"".join(file.to_bytes(4, sys.byteorder) for file in (0, 1, 2))
size = len(message).to_bytes(8, sys.byteorder)
connection.sendmsg([size], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
connection.sendall(message)
answer = connection.recv(8, _socket.MSG_WAITALL)
sys.exit(int.from_bytes(answer, sys.byteorder) if answer else 1)
"""


@dataclass(frozen=True)
class Asked:
    """One call of a program; `files` are its standard input, output and error."""

    program: str
    words: list[str]
    folder: str
    environment: dict[str, str]
    files: list[int]
    connection: socket.socket

    @property
    def path(self) -> list[str]:
        return self.environment.get("PYTHONPATH", "").split(":")

    def close(self) -> None:
        self.connection.close()
        for file in self.files:
            os.close(file)


def write_client(path: Path, *real: str) -> None:
    """Write a program that calls the server if there is one; otherwise it runs `real`."""
    command = real or (str(Path(sys.executable).with_name(path.name)),)
    path.write_text(
        CLIENT.format(python=sys.executable, place=PLACE.encode(), program=path.name, real=command), "utf-8"
    )
    path.chmod(0o755)


@contextmanager
def tools(*programs: str) -> Iterator[None]:
    """Start a server for all clients in this block. If only some programs are needed, it starts faster with their
    names."""
    from support.waiting import wait_for

    with tempfile.TemporaryDirectory(prefix="tools-") as folder:
        path = Path(folder) / "socket"
        server = subprocess.Popen([sys.executable, __file__, str(path), *programs], stdin=subprocess.DEVNULL)
        try:
            wait_for(lambda: path.exists() or server.poll() is not None, lambda: None)
            os.environ[PLACE] = str(path)
            yield
        finally:
            os.environ.pop(PLACE, None)
            server.terminate()
            server.wait()


def serve(path: str, *programs: str) -> None:
    for program in programs or PRELOADED:
        for module in PRELOADED[program]:
            import_module(module)
        attrgetter(PARSERS[program])(import_module(PROGRAMS[program]))()
    imported = {name.split(".")[0] for name in sys.modules}
    assert not imported & {"rtm", "pygit2"} and threading.active_count() == 1  # threads do not survive a fork
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended forks disappear without a wait
    gc.freeze()  # garbage collections in forks skip all these objects
    ready: dict[tuple[object, ...], socket.socket] = {}
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{path}.new")
        server.listen(16)
        os.rename(f"{path}.new", path)  # noqa: PTH104
        while True:
            connection, _ = server.accept()
            if asked := _received(connection):
                _forked(asked, [server, *ready.values()]) if asked.program == "dvc" else _passed_on(
                    asked, ready, server
                )
                asked.close()


def _received(connection: socket.socket) -> Asked | None:
    """A call, with its connection; None if the caller has closed the connection."""
    header, files, *_ = socket.recv_fds(connection, SIZE.size, 4)
    if not header:
        connection.close()
        return None
    (size,) = SIZE.unpack(header)
    program, words, folder, given = marshal.loads(connection.recv(size, socket.MSG_WAITALL))
    environment = {os.fsdecode(name): os.fsdecode(value) for name, value in given.items()}
    answers = socket.socket(fileno=files.pop()) if len(files) == 4 else connection
    answers.set_inheritable(False)
    return Asked(program, words, folder, environment, files, answers)


def _passed_on(asked: Asked, ready: dict[tuple[object, ...], socket.socket], server: socket.socket) -> None:
    """Pass a call on to the fork that has imported the present version of the caller's `rtm`."""
    code = tuple(
        (path, found.st_mtime_ns, found.st_size, found.st_ino)
        for path in sorted(Path(asked.path[0], "rtm").rglob("*.py"))
        for found in [path.stat()]
    )
    if code not in ready:
        ours, theirs = socket.socketpair()
        if os.fork() == 0:
            for each in (server, ours, *ready.values()):
                each.close()
            _serve_code(asked, theirs)
        theirs.close()
        for oldest in [*ready][: len(ready) - KEPT + 1]:
            ready.pop(oldest).close()  # which ends it
        ready[code] = ours
    ready[code] = ready.pop(code)  # move it to the end: the order is by last use
    message = marshal.dumps((asked.program, asked.words, asked.folder, asked.environment))
    socket.send_fds(ready[code], [SIZE.pack(len(message))], [*asked.files, asked.connection.fileno()])
    ready[code].sendall(message)


def _serve_code(first: Asked, server: socket.socket) -> None:
    _take_place(first)
    first.close()
    with suppress(Exception):  # the called program will report a faulty import
        for module in ("support.standin", *CODE):
            import_module(module)
    assert threading.active_count() == 1
    gc.freeze()
    while asked := _received(server):
        _forked(asked, [server])
        asked.close()
    os._exit(0)


def _take_place(asked: Asked) -> None:
    os.chdir(asked.folder)
    os.environ.clear()
    os.environ.update(asked.environment)
    sys.path[:] = [*asked.path, *INSTALLED]
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))


def _forked(asked: Asked, inherited: Sequence[socket.socket]) -> None:
    if os.fork():
        return
    for each in inherited:
        each.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for target, file in enumerate(asked.files):
        os.dup2(file, target)
        os.close(file)
    _take_place(asked)
    sys.argv = [asked.program, *asked.words]
    code = _called(import_module(PROGRAMS[asked.program]).main, asked)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    asked.connection.sendall(SIZE.pack(code))
    os._exit(code)


def _called(main: Callable[..., int | None], asked: Asked) -> int:
    """The exit code of a call. Snakemake exits by itself, DVC returns the code, the stand-in takes the words."""
    try:
        return main(*(asked.words if asked.program == "rtm" else ())) or 0
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1


if __name__ == "__main__":
    serve(*sys.argv[1:])
