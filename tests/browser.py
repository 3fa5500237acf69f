"""A real browser without a window, spoken to through two pipes (the Chrome DevTools Protocol): no driver needed."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def find() -> str | None:
    """The browser's program, or None where there is none; GIFTRL_BROWSER names another."""
    return os.environ.get("GIFTRL_BROWSER") or next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One tab."""

    def __init__(self, program: str) -> None:
        self._profile = tempfile.mkdtemp(prefix="giftrl-browser-")
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        options = (
            "--headless --no-sandbox --disable-gpu --disable-background-networking --disable-dev-shm-usage "
            f"--no-first-run --hide-scrollbars --remote-debugging-pipe --user-data-dir={self._profile} about:blank"
        )
        # The protocol wants file descriptors 3 and 4.
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$0" {options} 3<&{to_browser} 4>&{from_browser}', program],
            pass_fds=(to_browser, from_browser), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)
        self._buffer = b""
        self._id = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Ask and wait for the answer; events that come before it are kept."""
        self._id += 1
        message = {"id": self._id, "method": method, "params": parameters}
        if self._session and not method.startswith("Target."):
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._id:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self.events.append(answer)

    def open(self, path: Path | str, width: int = 1200, height: int = 800, dark: bool = False) -> None:
        """Load a file, or an address, at a width; a width below 600 is a phone."""
        self.events.clear()
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.call("Page.navigate", url=path if isinstance(path, str) else path.resolve().as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self._receive())
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def complaints(self) -> list[str]:
        """What the console holds: messages, exceptions, and whatever the browser logs."""
        bad = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded", "Network.loadingFailed")
        return [json.dumps(event) for event in self.events if event["method"] in bad]

    def requests(self) -> list[str]:
        """The addresses that the page asked for."""
        sent = (
            event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"
        )
        return list(sent)

    def screenshot(self, path: Path, whole: bool = True) -> None:
        """The page as a PNG file."""
        image = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(image["data"]))

    def close(self) -> None:
        """End the browser."""
        self._process.terminate()
        self._process.wait(20)
        os.close(self._write)
        os.close(self._read)
        shutil.rmtree(self._profile, ignore_errors=True)

    def _receive(self, patience: float = 60.0) -> dict[str, Any]:
        end = time.monotonic() + patience
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            chunk = os.read(self._read, 1 << 20)
            assert chunk, "the browser has ended"
            self._buffer += chunk
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)


@pytest.fixture(scope="module")
def browser():
    """A browser for the tests of a file; without one these skip."""
    program = find()
    if program is None:
        pytest.skip("no browser is installed (Chromium or Chrome); GIFTRL_BROWSER can name one")
    tab = Browser(program)
    yield tab
    tab.close()
