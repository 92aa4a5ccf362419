# SPDX-License-Identifier: Apache-2.0
"""Follows a document to the letter: writes its files, runs its commands, compares its answers.

A code block below a heading that is a path is that file; ``sh`` is run; ``json`` is what the
commands before it print. Any other block is only shown.
"""

import json
import os
import re
import subprocess
import urllib.request
from contextlib import suppress
from pathlib import Path
from threading import Event
from time import monotonic

from tests.processes import free_port

BLOCK = re.compile(
    r"(?:^#+ `(?P<path>[^`\n]+)`\n+)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S
)
WAIT_S = 200.0
PORT = "8080"  # in every document
STARTS = ("servekit start", "servekit torchserve", "servekit mms")


class Reader:
    """Somebody who does what a document says, in *directory*, with the programs of *programs*."""

    def __init__(self, directory: Path, programs: Path) -> None:
        self._directory = directory
        self._log = directory / "server.log"
        self._port = str(free_port())
        self._server: subprocess.Popen[bytes] | None = None
        self._printed = ""
        self._environment = os.environ | {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "SERVEKIT_PORT": self._port,
            "SERVEKIT_CACHE_DIR": str(directory / ".cache"),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def follow(self, text: str, instead: dict[str, str] | None = None) -> int:
        """Do everything *text* says and return the number of its answers that were compared.

        :param instead: commands to replace, such as what installs a published package.
        """
        compared = 0
        try:
            for block in BLOCK.finditer(text):
                compared += self._do(block["path"], block["language"], block["text"], instead or {})
        finally:
            self._stop()
        return compared

    def _do(self, path: str | None, language: str, text: str, instead: dict[str, str]) -> bool:
        if path:
            file = self._directory / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        elif language == "sh":
            for command, other in instead.items():
                text = text.replace(command, other)
            self._run(text.replace(PORT, self._port))
        elif language == "json":
            assert json.loads(self._printed) == json.loads(text)
            return True
        return False

    def _run(self, commands: str) -> None:
        if commands.startswith(STARTS):
            self._start(commands)
            return
        done = subprocess.run(
            ["bash", "-e", "-c", commands], cwd=self._directory, env=self._environment,
            capture_output=True, text=True, timeout=WAIT_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{commands}\n{done.stdout}\n{done.stderr}"
        self._printed = done.stdout

    def _start(self, command: str) -> None:
        """Start the server, or another one in its place, and wait until it is ready."""
        self._stop()
        with self._log.open("wb") as log:
            self._server = subprocess.Popen(
                ["bash", "-c", f"exec {command}"], cwd=self._directory, env=self._environment,
                stdout=log, stderr=log,
            )  # fmt: skip
        deadline = monotonic() + WAIT_S
        while not self._is_ready():
            said = self._log.read_text()
            assert self._server.poll() is None, f"{command} exited\n{said}"
            assert monotonic() < deadline, f"{command} is not ready\n{said}"
            Event().wait(0.05)

    def _is_ready(self) -> bool:
        with suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{self._port}/ping", timeout=2).close()
            return True
        return False

    def _stop(self) -> None:
        if self._server is not None:
            self._server.terminate()
            status, self._server = self._server.wait(WAIT_S), None
            assert status == 0, f"the server exited with {status}\n{self._log.read_text()}"
