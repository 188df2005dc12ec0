"""A web server on this machine that misbehaves on purpose and remembers the requests."""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

PAGE = b"<!DOCTYPE html><html><body>Please sign in</body></html>"
CONTENT = np.random.default_rng(0).bytes(1_000_000)
SUMS = {"sha256": hashlib.sha256(CONTENT).hexdigest(), "md5": hashlib.md5(CONTENT).hexdigest()}


class Server:
    """Serve `content` at every path, with one habit for each request; the last habit is repeated."""

    def __init__(self, content: bytes, *habits: str) -> None:
        self.content = content
        self.habits = list(habits)
        self.asked: list[str | None] = []  # the requested ranges
        self.raw = b""  # the whole answer of habit "raw"
        self.stalled = threading.Event()  # ends a stall
        self.url = ""

    def habit(self) -> str:
        return self.habits.pop(0) if len(self.habits) > 1 else self.habits[0]


@contextmanager
def serving(content: bytes, *habits: str) -> Iterator[Server]:
    server = Server(content, *habits)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.asked.append(self.headers["Range"])
            _Answer(self, server, server.habit()).give()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.daemon_threads = True
        server.url = f"http://127.0.0.1:{http.server_port}/file.zip"
        threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield server
        finally:
            server.stalled.set()
            http.shutdown()


class _Answer:
    def __init__(self, handler: BaseHTTPRequestHandler, server: Server, habit: str) -> None:
        self.handler = handler
        self.server = server
        self.habit = habit
        self.begin = int((handler.headers["Range"] or "bytes=0-")[6:-1])

    def give(self) -> None:
        if self.habit == "mute":
            return
        if self.habit.isdigit() or self.habit == "empty":
            self.head(200 if self.habit == "empty" else int(self.habit), 0)
        elif self.habit.startswith("to "):
            self.head(302, 0, Location=self.habit[3:])
        elif self.habit == "raw":
            self.handler.wfile.write(self.server.raw)
        elif self.habit == "endless":
            self.on_and_on()
        elif self.habit in ("login", "disguised login"):
            self.head(200, len(PAGE), "text/html" if self.habit == "login" else "application/zip")
            self.handler.wfile.write(PAGE)
        else:
            self.file()

    def file(self) -> None:
        content = self.server.content
        habit = self.habit
        if habit == "drops and changes":
            content = content.translate(bytes(byte ^ len(self.server.asked) & 255 for byte in range(256)))
        if self.begin >= len(content):
            self.head(416, 0)
            return
        ranged = self.begin and habit not in ("deaf", "deaf and dropping")
        rest = content[self.begin :] if ranged else content
        sent = rest[: len(rest) // 2] if "drop" in habit or habit in ("claims more", "stalls") else rest
        sent = bytes(255 - byte for byte in sent) if habit == "other file" else sent
        length = {"claims less": len(rest) // 2, "claims more": len(rest)}.get(habit, len(rest))
        place = self.begin + (1 if habit == "shifts" else 0)
        extra = {"Content-Range": f"bytes {place}-{len(content) - 1}/{len(content)}"} if ranged else {}
        self.head(206 if ranged else 200, length, **extra)
        self.handler.wfile.write(sent)
        if habit == "stalls":
            self.handler.wfile.flush()
            self.server.stalled.wait(30)

    def on_and_on(self) -> None:
        """Send a file that never ends."""
        self.head(200, -1)
        with suppress(OSError):
            while not self.server.stalled.is_set():
                self.handler.wfile.write(self.server.content)

    def head(self, status: int, length: int, kind: str = "application/octet-stream", **extra: str) -> None:
        self.handler.send_response(status)
        self.handler.send_header("Content-Type", kind)
        if length >= 0:
            self.handler.send_header("Content-Length", str(length))
        for name, value in extra.items():
            self.handler.send_header(name, value)
        self.handler.end_headers()
