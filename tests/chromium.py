"""A headless Chromium for tests, driven through its DevTools pipe; skips where there is none."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",  # tests run as root in containers
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)
PATIENCE = 30.0
"""Seconds to wait for a word from the browser."""


class Chromium:
    """One page. Problems of its scripts are collected in `problems`."""

    def __init__(self, width: int = 1400, height: int = 1000) -> None:
        program = next((found for name in NAMES if (found := shutil.which(name))), None)
        if not program:
            pytest.skip("no Chromium is installed: apt-get install chromium")
        self._profile = TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        read, self._out = os.pipe()
        self._in, write = os.pipe()
        read, write = (_moved_up(file) for file in (read, write))
        shell = f'exec 3<&{read} 4>&{write}; exec "$0" "$@"'  # Chromium reads from 3 and writes to 4
        flags = (*FLAGS, f"--user-data-dir={self._profile.name}", f"--window-size={width},{height}")
        self._process = subprocess.Popen(
            ["bash", "-c", shell, program, *flags], pass_fds=(read, write), stderr=subprocess.DEVNULL
        )
        os.close(read)
        os.close(write)
        self._number, self._rest, self._session, self._loaded = 0, b"", "", False
        self.problems: list[str] = []

    def __enter__(self) -> Self:
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.send("Page.enable")
        self.send("Runtime.enable")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)
        self._profile.cleanup()

    def open(self, url: str) -> None:
        """Load the page anew and wait until it is there."""
        for address in ("about:blank", url):  # going to another place of the same page would not load it
            self._loaded = False
            self.send("Page.navigate", url=address)
            while not self._loaded:
                self._receive()

    def run(self, script: str) -> Any:
        """The value of an expression in the page; promises are waited for."""
        reply = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in reply, reply["exceptionDetails"]
        return reply["result"].get("value")

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot")["data"]))

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the DevTools protocol and its reply."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            reply = self._receive()
            if reply.get("id") == self._number:
                assert "error" not in reply, reply["error"]
                return dict(reply["result"])

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            assert select.select([self._in], [], [], PATIENCE)[0], "Chromium does not answer"
            piece = os.read(self._in, 1 << 20)
            assert piece, "Chromium has ended"
            self._rest += piece
        text, self._rest = self._rest.split(b"\0", 1)
        message: dict[str, Any] = json.loads(text)
        self._loaded |= message.get("method") == "Page.loadEventFired"
        if message.get("method") == "Runtime.exceptionThrown":
            self.problems.append(message["params"]["exceptionDetails"]["exception"].get("description", ""))
        return message


def _moved_up(file: int) -> int:
    """The same pipe under a number that is not 3 or 4."""
    moved = fcntl.fcntl(file, fcntl.F_DUPFD, 10)
    os.close(file)
    return moved
