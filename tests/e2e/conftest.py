# SPDX-License-Identifier: Apache-2.0
"""Runs the real commands and always ends them."""

import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from time import monotonic

import pytest

from tests.processes import is_alive
from tests.waiting import wait_until

WAIT_S = 60.0
START_S = 200.0  #: on a busy machine many models, or several workers in turn, start for long
BIN = Path(sys.executable).parent
URL = re.compile(r"https?://127\.0\.0\.1:(\d+)")


class Server:
    """One ``servekit start`` in a session of its own."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.lines: list[str] = []
        self._said = threading.Condition()
        command = [BIN / "servekit", "start", "--port", "0", *arguments]
        environment = os.environ | {"SERVEKIT_CACHE_DIR": str(directory / "cache")}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=environment, cwd=directory,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            with self._said:
                self.lines.append(line.rstrip("\n"))
                self._said.notify_all()

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    def wait_for(self, text: str, timeout_s: float = WAIT_S) -> str:
        """Return the first line that holds *text*."""
        deadline = monotonic() + timeout_s
        with self._said:
            while True:
                for line in self.lines:
                    if text in line:
                        return line
                left = deadline - monotonic()
                if left <= 0 or (self.process.poll() is not None and not self._reader.is_alive()):
                    raise AssertionError(f"no {text!r} in the output:\n{self.output}")
                self._said.wait(min(left, 0.5))

    def wait_ready(self) -> "Server":
        self.port = int(URL.search(self.wait_for("serving", START_S))[1])
        return self

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str) -> tuple[int, bytes]:
        return self.send(urllib.request.Request(self.url + path))[::2]

    def post(self, path, body, content_type="application/json", **headers):
        request = urllib.request.Request(self.url + path, data=body, method="POST")
        request.add_header("Content-Type", content_type)
        for name, value in headers.items():
            request.add_header(name.replace("_", "-"), value)
        return self.send(request)

    def send(self, request) -> tuple[int, dict[str, str], bytes]:
        try:
            with urllib.request.urlopen(request, timeout=START_S) as answer:
                return answer.status, dict(answer.headers), answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, dict(error.headers), error.read()

    def tree(self) -> list[int]:
        """Return the pids of the supervisor and everything below it."""
        pids, found = [self.process.pid], []
        while pids:
            pid = pids.pop()
            found.append(pid)
            with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                pids += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        return found

    def workers(self) -> list[int]:
        """Return the pids of the worker processes."""
        return [pid for pid in self.tree() if b"servekit.worker" in command_of(pid)]

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(WAIT_S)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self._reader.join(WAIT_S)
            self.process.stdout.close()


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.fixture(scope="module")
def serve(tmp_path_factory):
    """Start servers; all are stopped, and checked to leave nothing, at the end of the module."""
    servers = []

    def start(*arguments, ready=True):
        server = Server(tmp_path_factory.mktemp("server"), *map(str, arguments))
        servers.append(server)
        return server.wait_ready() if ready else server

    yield start
    for server in servers:
        pids = server.tree()
        server.stop()
        wait_until(lambda p=pids: not any(map(is_alive, p)), f"processes {pids} are gone")


@pytest.fixture
def run(tmp_path):
    """Run a command of the installation and return the finished process."""

    def run_command(*arguments, cwd=tmp_path, **options):
        command = [BIN / arguments[0], *map(str, arguments[1:])]
        return subprocess.run(
            command, cwd=cwd, text=True, capture_output=True, timeout=WAIT_S, check=False, **options
        )

    return run_command
