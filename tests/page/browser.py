"""A real browser without a window: Chromium, controlled over its DevTools protocol with the standard library only."""

import base64
import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from support.waiting import STANDSTILL, tail, wait_for

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--no-first-run")


def program() -> str:
    """The browser's path. Without a browser the test is skipped or, with REQUIRE_BROWSER=1, fails."""
    paths = filter(None, map(shutil.which, NAMES))
    path = next(paths, None)
    if path is None:
        if os.environ.get("REQUIRE_BROWSER") == "1":
            pytest.fail("REQUIRE_BROWSER=1, but chromium is not installed")
        pytest.skip("chromium is not installed")
    return path


@contextmanager
def browser() -> Iterator["Browser"]:
    # a short folder for Chromium's own files, because the test's folder is too long for the paths of its sockets
    with tempfile.TemporaryDirectory(prefix="rtm-web-", ignore_cleanup_errors=True) as folder:
        command = [program(), *FLAGS, f"--user-data-dir={folder}", "about:blank"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield Browser(_port(Path(folder), process))
        finally:
            process.terminate()
            process.wait()


def _port(folder: Path, process: "subprocess.Popen[bytes]") -> int:
    def lines() -> list[str]:
        assert process.poll() is None, "chromium did not start"
        return tail(folder / "DevToolsActivePort").splitlines()

    return int(wait_for(lines, lambda: sorted(os.listdir(folder)))[0])  # noqa: PTH208


class Browser:
    def __init__(self, port: int) -> None:
        self.port = port

    @contextmanager
    def open(self, address: str, width: int, *, dark: bool = False, script: bool = True) -> Iterator["Tab"]:
        """Open a tab with this width, dark or light, with or without scripts."""
        with urlopen(Request(f"http://127.0.0.1:{self.port}/json/new?about:blank", method="PUT")) as answer:
            target = json.load(answer)
        tab = Tab(self.port, target["webSocketDebuggerUrl"].split("/", 3)[3])
        try:
            phone = {
                "width": width,
                "height": 900,
                "deviceScaleFactor": 1,
                "mobile": width < 600,
            }
            tab.call("Emulation.setDeviceMetricsOverride", **phone)
            scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
            tab.call("Emulation.setEmulatedMedia", features=[scheme])
            for domain in ("Page", "Runtime", "Network", "Log"):
                tab.call(f"{domain}.enable")
            if not script:
                tab.call("Emulation.setScriptExecutionDisabled", value=True)
            tab.go(address)
            yield tab
        finally:
            tab.close()


class Tab:
    """A web socket to one page: calls with their answers, and the events in between."""

    def __init__(self, port: int, path: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=STANDSTILL)
        self.stream = self.socket.makefile("rb")
        key = base64.b64encode(os.urandom(16)).decode()
        upgrade = f"GET /{path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        self.socket.sendall(f"{upgrade}Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
        while self.stream.readline().strip():
            pass
        self.number = 0
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self.number += 1
        self._send({"id": self.number, "method": method, "params": params})
        while (answer := self._receive()).get("id") != self.number:
            self.events.append(answer)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def go(self, address: str) -> None:
        self.events.clear()
        self.call("Page.navigate", url=address)
        while not self.seen("Page.loadEventFired"):
            self.events.append(self._receive())

    def seen(self, method: str) -> list[dict[str, Any]]:
        return [event["params"] for event in self.events if event.get("method") == method]

    def evaluate(self, expression: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        codes = {"Enter": 13, "Tab": 9, "Escape": 27}
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            shown = text if kind == "keyDown" else {}
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=codes[key],
                **shown,
            )

    def picture(self, path: Path, whole: bool = False) -> None:
        """A screenshot, for people."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]))

    def close(self) -> None:
        self.stream.close()
        self.socket.close()

    def _send(self, message: dict[str, Any]) -> None:
        """One masked text frame."""
        data = json.dumps(message).encode()
        mask = os.urandom(4)
        size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + struct.pack("!H", len(data))
        self.socket.sendall(b"\x81" + size + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(data)))

    def _receive(self) -> dict[str, Any]:
        """The next message, of as many frames as it has."""
        parts = []
        last = False
        while not last:
            first, size = self.stream.read(2)
            if size == 126:
                (size,) = struct.unpack("!H", self.stream.read(2))
            elif size == 127:
                (size,) = struct.unpack("!Q", self.stream.read(8))
            parts.append(self.stream.read(size))
            last = bool(first & 0x80)
        message: dict[str, Any] = json.loads(b"".join(parts))
        return message
