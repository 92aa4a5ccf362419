# SPDX-License-Identifier: Apache-2.0
"""A real ``servekit start`` on a free port, and how to disturb it."""

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from threading import Event
from time import monotonic
from typing import IO, Any, Self, cast

import msgspec

from servekit.local_server.child import start_command, start_logged
from servekit.testing.log import WAIT_S, ServerLog
from servekit.testing.response import OK, Response

__all__ = ["ServedModel"]

STOP_S = 120.0  #: longer than the server's own patience with what it has taken
POLL_S = 0.02


class ServedModel:
    """Serves a model, or several, until ``stop``, which also the end of a ``with`` does."""

    def __init__(
        self,
        directory: str | Path,
        *others: str | Path,
        environment: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        """Start the server; ``wait_ready`` waits for it. It ends with the thread that starts it.

        :param directory: a model directory or an archive.
        :param others: further models of the same server.
        :param environment: all variables of the server; ``None`` leaves it ours.
        :param settings: options of ``servekit start``: ``replicas=2, max_body="1MiB"``.
        """
        port = {} if "bind" in settings else {"port": 0}
        settings = {**port, **settings, "log_format": "json"}
        command = start_command([str(directory), *map(str, others)], settings)
        self.process = start_logged(command, environment)
        self.log = ServerLog(cast("IO[str]", self.process.stdout))
        self._replacements: dict[int, int] = {}  #: the start of each killed replica to wait for

    def wait_ready(self) -> Self:
        """Wait until the model answers; after a worker was killed, until it does again.

        :raises AssertionError: it does not in three minutes, or cannot be loaded.
        """
        self.log.wait_for("serving")
        for replica, count in self._replacements.items():  # /ping may still say 200
            self.log.wait_for("worker_ready", count=count, replica=replica)
        deadline, pause = monotonic() + WAIT_S, Event()
        while self.get("/ping").status != OK:
            if monotonic() > deadline or self.process.poll() is not None:
                raise AssertionError(f"not ready\n{self.log.text}")
            pause.wait(POLL_S)
        return self

    @property
    def url(self) -> str:
        """``http://127.0.0.1:40213``."""
        return str(self.log.wait_for("serving")["url"])

    @property
    def name(self) -> str:
        """The name of the model."""
        return str(self.log.wait_for("worker_ready")["model"])

    # ------------------------------------------------------------ what one can ask

    def predict(self, value: Any) -> Response:
        """Send *value* as JSON to the model."""
        return self.post(f"/{self.name}/predict", msgspec.json.encode(value))

    def post(
        self,
        path: str,
        body: bytes,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Send a request with a body."""
        return self._send("POST", path, body, {"Content-Type": content_type, **(headers or {})})

    def get(self, path: str) -> Response:
        """Send a request without one: ``/ping``, ``/metrics``."""
        return self._send("GET", path, None, {})

    def _send(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Response:
        connection = HTTPConnection(self.url.partition("://")[2], timeout=WAIT_S)
        try:
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, HTTPException) as error:
            raise AssertionError(f"{method} {path}: {error!r}\n{self.log.text}") from error
        finally:
            connection.close()
        return Response(
            answer.status, answer.headers.get_content_type(), content, dict(answer.headers)
        )

    # ------------------------------------------------------------ how to disturb it

    def worker_pid(self, replica: int = 0) -> int:
        """Return the process that fills *replica*, or did so last."""
        self.log.wait_for("worker_ready", replica=replica)
        return int(self.log.find("worker_ready", replica=replica)[-1]["pid"])

    def kill_worker(self, replica: int = 0) -> None:
        """Kill a worker as the kernel does for want of memory; returns when that is noticed."""
        seen = len(self.log.find("worker_exited"))
        pid = self.worker_pid(replica)
        self._replacements[replica] = len(self.log.find("worker_ready", replica=replica)) + 1
        os.kill(pid, signal.SIGKILL)
        self.log.wait_for("worker_exited", count=seen + 1)

    @contextmanager
    def paused_worker(self, replica: int = 0) -> Iterator[None]:
        """Stop a worker in its tracks (SIGSTOP) for the length of a ``with``."""
        pid = self.worker_pid(replica)
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            with suppress(ProcessLookupError):  # it was given up as hung, and killed
                os.kill(pid, signal.SIGCONT)

    # ------------------------------------------------------------ its end

    def stop(self) -> int:
        """Stop the server as SIGTERM does, and return its exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(STOP_S)
        finally:
            self.process.kill()
            self.process.wait()
            self.log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()
