# SPDX-License-Identifier: Apache-2.0
"""Chromium without a window, driven over two pipes; nothing has to be installed but itself."""

import base64
import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path
from select import select
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
WAIT_S = 400.0  #: checking how accessible a hundred rows are takes long on a busy machine
#: errors of a script whose page went away, since another one was on its way
LEAVING = ("navigated", "context was destroyed", "Cannot find", "Promise was collected")
OPTIONS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-background-networking", "--remote-debugging-pipe"),
    *("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--window-size=1200,1600"),
    "--use-fake-device-for-media-stream",  # a microphone that beeps
)
#: key to its code in Windows and the text that it types
KEYS = {"Tab": (9, ""), "Enter": (13, "\r"), " ": (32, " "), "ArrowDown": (40, "")}
SHIFT, CONTROL = 8, 2


class Browser:
    """One page. Ends the browser when it is closed."""

    def __init__(self, profile: Path) -> None:
        """Start Chromium, which keeps its files in *profile*."""
        given, self._write = os.pipe()
        self._read, told = os.pipe()
        commands, answers = (fcntl.fcntl(each, fcntl.F_DUPFD, 10) for each in (given, told))
        # it reads commands at the descriptor 3, and writes answers at 4
        start = f'exec "$0" "$@" 3<&{commands} 4>&{answers}'
        # it leaves a folder with sockets, whose paths have to be short
        self._scratch = TemporaryDirectory(prefix="sk", ignore_cleanup_errors=True)
        self._process = subprocess.Popen(
            ["bash", "-c", start, str(CHROMIUM), f"--user-data-dir={profile}", *OPTIONS],
            pass_fds=(commands, answers), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=os.environ | {"TMPDIR": self._scratch.name},
        )  # fmt: skip
        for descriptor in (given, told, commands, answers):
            os.close(descriptor)
        self._number, self._rest, self._session = 0, b"", ""
        self._front = ""  #: the tab in front of the page
        self.mistakes: list[str] = []  #: errors in the console of the browser, and exceptions
        self.requested: list[str] = []  #: the URLs that pages have asked for
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Log", "Network", "Page", "Runtime"):
            self.call(f"{domain}.enable")

    def open(self, url: str) -> None:
        """Show the page at *url*, and wait until it has loaded."""
        self.call("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def look_like(
        self, *, width: int = 1280, height: int = 900, scheme: str = "light", scale: float = 1
    ) -> None:
        """Have a window of this size in CSS pixels, and prefer the colours of *scheme*."""
        size = {"width": width, "height": height, "deviceScaleFactor": scale}
        self.call("Emulation.setDeviceMetricsOverride", **size, mobile=width < 600)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def press_key(self, key: str, modifiers: int = 0) -> None:
        """Press one of ``KEYS``, with ``SHIFT`` or ``CONTROL``."""
        code, text = KEYS[key]
        how = {"key": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        typed = {"text": text} if text else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **how, **typed)
        self.call("Input.dispatchKeyEvent", type="keyUp", **how)

    def hide(self) -> None:
        """Open another tab in front of the page, so that nobody sees the page."""
        self._front = self._ask_browser("Target.createTarget", url="about:blank")["targetId"]
        self.wait_for("document.hidden")

    def show(self) -> None:
        """Close that tab, so that the page is seen again."""
        self._ask_browser("Target.closeTarget", targetId=self._front)
        self.call("Page.bringToFront")
        self.wait_for("!document.hidden")

    def close(self) -> None:
        """End the browser."""
        self._process.terminate()
        try:
            self._process.wait(WAIT_S)
        finally:
            self._process.kill()
            self._process.wait()
            self._scratch.cleanup()
            os.close(self._write)
            os.close(self._read)

    def _ask_browser(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Return the result of a command that is for the browser and not for its page."""
        session, self._session = self._session, ""
        try:
            return self.call(method, **parameters)
        finally:
            self._session = session

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Return the result of a command of the DevTools protocol."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = monotonic() + WAIT_S
        while (answer := self._next(deadline)).get("id") != self._number:
            self._note(answer)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def _note(self, event: dict[str, Any]) -> None:
        """Remember what tests ask for of an event."""
        found = event.get("params", {})
        match event.get("method"):
            case "Network.requestWillBeSent":
                self.requested.append(found["request"]["url"])
            case "Runtime.exceptionThrown":
                self.mistakes.append(json.dumps(found["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if found["type"] in ("error", "assert"):
                self.mistakes.append(json.dumps(found["args"]))
            case "Log.entryAdded" if found["entry"]["level"] == "error":
                self.mistakes.append(json.dumps(found["entry"]))

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select([self._read], [], [], max(deadline - monotonic(), 0))
            assert ready, f"no answer from the browser within {WAIT_S:.0f} s"
            found = os.read(self._read, 1 << 20)
            assert found, "the browser has ended"
            self._rest += found
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def run(self, script: str) -> Any:
        """Return the value of a JavaScript expression, awaited if it is a promise."""
        how = {"awaitPromise": True, "returnByValue": True, "userGesture": True}
        answer = self.call("Runtime.evaluate", expression=script, **how)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, script: str) -> Any:
        """Return the value of *script* as soon as it is true."""
        poll = f"""new Promise((done, failed) => {{
            const end = Date.now() + {WAIT_S * 500:.0f}
            const look = () => {{
                const found = {script}
                if (found) done(found)
                else if (Date.now() > end) failed(new Error(document.body.innerText.slice(0, 2000)))
                else setTimeout(look, 50)
            }}
            look()
        }})"""
        deadline = monotonic() + WAIT_S
        while True:
            try:
                return self.run(poll)
            except AssertionError as error:
                is_leaving = any(each in str(error) for each in LEAVING)
                if not is_leaving or monotonic() > deadline:
                    raise

    def screenshot(self, path: Path, *, is_whole: bool = False) -> None:
        """Write a picture of the window to *path*, or of the whole page."""
        shot = {"format": "png", "captureBeyondViewport": is_whole, "optimizeForSpeed": False}
        if is_whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            shot["clip"] = {**size, "scale": 1}
        picture = self.call("Page.captureScreenshot", **shot)["data"]
        path.write_bytes(base64.b64decode(picture))
