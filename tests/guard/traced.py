# SPDX-License-Identifier: Apache-2.0
"""A whole server under strace, and a bounded number of requests through it."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.waiting import wait_until

MODEL = Path(__file__).parents[1] / "benchmarks" / "models" / "sum"
WAIT_S = 200.0
BODY = b'{"x":[1.5,2.5,3.5,4.5]}'
DESCRIBED = re.compile(rb"batch;dur=[0-9.]+;desc=([0-9]+)")
URL = re.compile(r"http://127\.0\.0\.1:([0-9]+)")


@contextmanager
def traced_server(directory: Path) -> Iterator[int]:
    """Yield the port of a server whose processes write ``directory/trace.PID``."""
    log = directory / "log"
    servekit = Path(sys.executable).with_name("servekit")
    command = ["strace", "-ff", "-s", "400", "-o", str(directory / "trace")]
    command += [str(servekit), "start", "--models", str(MODEL), "--port", "0"]
    command += ["--plugin", "console.enabled=false"]  # its history has a cost of its own
    with log.open("wb") as stream:
        tracer = subprocess.Popen(
            command, stdout=stream, stderr=stream, start_new_session=True,
            env=os.environ | {"SERVEKIT_CACHE_DIR": str(directory / "cache")},
        )  # fmt: skip
    try:
        wait_until(
            lambda: " serving " in log.read_text() or tracer.poll() is not None, "no server", WAIT_S
        )
        assert tracer.poll() is None, f"the server ended:\n{log.read_text()}"
        yield int(URL.search(log.read_text())[1])
    finally:
        with suppress(ProcessLookupError):
            os.killpg(tracer.pid, signal.SIGTERM)  # strace passes it by; the server stops
        try:
            tracer.wait(WAIT_S)
        finally:
            if tracer.poll() is None:
                os.killpg(tracer.pid, signal.SIGKILL)


def ask(port: int, requests: int, clients: int = 1) -> float:
    """Send *requests* by *clients* at once, each waiting for the answers of all.

    :return: how many batches they were.
    """
    sockets = [socket.create_connection(("127.0.0.1", port), WAIT_S) for _ in range(clients)]
    batches = 0.0
    for number in range(requests // clients):
        for sock in sockets:
            sock.sendall(post(f"guard-{number}"))
        batches += sum(1 / size_of_batch(sock.recv(65_536)) for sock in sockets)
    for sock in sockets:
        sock.close()
    return round(batches, 6)


def post(request_id: str) -> bytes:
    """Return a request that can be found in a trace."""
    return (
        b"POST /sum/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Request-Id: %b\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
    ) % (request_id.encode(), len(BODY), BODY)


def size_of_batch(answer: bytes) -> int:
    assert answer.startswith(b"HTTP/1.1 200 "), answer
    return int(DESCRIBED.search(answer)[1])
