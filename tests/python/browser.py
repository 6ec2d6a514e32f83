"""A Chromium without a window, spoken to through pipes by the DevTools protocol."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

# Chromium reads commands from descriptor 3 and writes to 4, which the copies must not be already.
_START = """
import fcntl, os, sys
commands, answers = (fcntl.fcntl(int(each), fcntl.F_DUPFD_CLOEXEC, 10) for each in sys.argv[1:3])
os.dup2(commands, 3)
os.dup2(answers, 4)
os.execvp(sys.argv[3], sys.argv[3:])
"""
_TIMEOUT = 60.0


def program() -> str:
    """Chromium's program. Without one the test is skipped, or fails where it is required."""
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        if found := shutil.which(name):
            return found
    assert os.environ.get("POLYLOOM_REQUIRE_CHROMIUM") != "1", "Chromium is required and not there"
    pytest.skip("Chromium is not installed (Debian: chromium; make test-pages installs it)")


class HeadlessBrowser:
    """One page of a browser; a context manager."""

    def __init__(self, profile: Path) -> None:
        command_end, self._commands = os.pipe()
        self._answers, answer_end = os.pipe()
        options = ["--headless=new", "--remote-debugging-pipe", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
        # Its sandbox is not to be had in containers, nor as root; it loads nothing but our own pages.
        options += ["--no-sandbox", "--disable-dev-shm-usage", f"--user-data-dir={profile}", "about:blank"]
        start = [sys.executable, "-c", _START, str(command_end), str(answer_end), program(), *options]
        self._process = subprocess.Popen(
            start, pass_fds=(command_end, answer_end), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(command_end)
        os.close(answer_end)
        self._read = b""
        self._n_sent = 0
        self._events: list[dict[str, Any]] = []
        target = next(each for each in self._call("Target.getTargets")["targetInfos"] if each["type"] == "page")
        attached = self._call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session: str | None = attached["sessionId"]
        for domain in ("Page", "Log", "Runtime"):
            self._call(f"{domain}.enable")

    _session = None

    def __enter__(self) -> HeadlessBrowser:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(timeout=20)
        os.close(self._commands)
        os.close(self._answers)

    def _message(self) -> dict[str, Any]:
        deadline = time.monotonic() + _TIMEOUT
        while b"\0" not in self._read:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, deadline - time.monotonic()))
            piece = os.read(self._answers, 1 << 16) if ready else b""
            if not piece:
                raise RuntimeError(f"Chromium does not answer; exit status {self._process.poll()}")
            self._read += piece
        message, self._read = self._read.split(b"\0", 1)
        return json.loads(message)

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._n_sent += 1
        request: dict[str, Any] = {"id": self._n_sent, "method": method, "params": parameters}
        if self._session is not None:
            request["sessionId"] = self._session
        os.write(self._commands, json.dumps(request).encode() + b"\0")
        while True:
            message = self._message()
            if message.get("id") == self._n_sent:
                assert "error" not in message, (method, message["error"])
                return message["result"]
            self._events.append(message)

    def open(self, url: str, width: int, scheme: str) -> list[str]:
        """Shows a page `width` pixels wide in a colour scheme, and returns what its console says."""
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self._events.clear()
        self._call("Page.navigate", url=url)
        while not any(each.get("method") == "Page.loadEventFired" for each in self._events):
            self._events.append(self._message())
        said = []
        for event in self._events:
            if event.get("method") in ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
                said.append(json.dumps(event["params"]))
        return said

    def evaluate(self, expression: str) -> Any:
        """The value of an expression of JavaScript."""
        result = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def screenshot(self, path: Path) -> None:
        """Draws the whole page, however long."""
        picture = self._call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(picture["data"]))
