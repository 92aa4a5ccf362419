# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of this environment for the demo: one to its end, the server until told."""

import contextlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

__all__ = ["BIN", "DemoError", "run", "serving"]

BIN = Path(sys.executable).parent
START_TIMEOUT_S = 90


class DemoError(Exception):
    """A step failed; says which, and shows what the failing program printed."""


def run(program: str, *arguments: object) -> str:
    """Run a program of this environment to its end and return what it printed."""
    command = [str(BIN / program), *map(str, arguments)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DemoError(f"{program}: {error}; was `make install` run?") from error
    if done.returncode:
        raise DemoError(f"{program} exited with {done.returncode}\n{done.stderr}")
    return done.stdout.strip()


@contextlib.contextmanager
def serving(archive: Path) -> Iterator[tuple[int, str]]:
    """Start the server, give its port and what it printed once it is ready, and end it."""
    port = free_port()
    command = [str(BIN / "servekit"), "start", "--models", str(archive), "--port", str(port)]
    with tempfile.TemporaryFile("w+") as log:
        # a session of its own: Ctrl-C reaches the demo alone, which then ends the server in order
        try:
            server = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        except OSError as error:
            raise DemoError(f"servekit: {error}; was `make install` run?") from error
        try:
            wait_until_ready(server, port)
            yield port, printed(log)
        except DemoError as error:
            raise DemoError(f"{error}\nthe server said:\n{printed(log)}") from error
        finally:
            status = stop(server)
    if status:
        raise DemoError(f"the server exited with {status} instead of 0")


def free_port() -> int:
    """Return a TCP port that nobody uses just now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def wait_until_ready(server: subprocess.Popen[bytes], port: int) -> None:
    """Ask ``/ping`` until it says 200."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise DemoError(f"the server exited with {server.returncode} before it was ready")
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/ping", timeout=2).close()
            return
        time.sleep(0.05)
    raise DemoError(f"the server was not ready after {START_TIMEOUT_S} s")


def printed(log: TextIO) -> str:
    """Return what the server has printed so far."""
    log.seek(0)
    return log.read().rstrip()


def stop(server: subprocess.Popen[bytes]) -> int:
    """Ask the server to leave and return its exit status; insist if it does not."""
    server.send_signal(signal.SIGTERM)
    try:
        return server.wait(timeout=40)
    except subprocess.TimeoutExpired:
        server.kill()
        return server.wait()
