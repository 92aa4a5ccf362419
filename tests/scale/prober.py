# SPDX-License-Identifier: Apache-2.0
"""Asks for ``/ping`` again and again, each time on a fresh connection. A process of its own.

``python -m tests.scale.prober PORT`` prints ``ready`` after its first answer, and the longest wait
in milliseconds when its input ends.
"""

import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

EVERY_S = 0.01
TIMEOUT_S = 10.0
PING = b"GET /ping HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


class Prober:
    """A running prober; ``longest_ms`` is known once it has ended."""

    longest_ms = float("nan")


@contextmanager
def probing(port: int) -> Iterator[Prober]:
    """Ask while the block lasts."""
    prober, pipe = Prober(), subprocess.PIPE
    command = [sys.executable, "-m", "tests.scale.prober", str(port)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, cwd=root, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", "the prober has failed"
            yield prober
            said, _ = process.communicate(timeout=10 * TIMEOUT_S)
            prober.longest_ms = float(said)
        finally:
            process.kill()


def ask(port: int) -> float:
    """Return the milliseconds that one answer takes; those of a time-out count."""
    began = monotonic()
    try:
        with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as sock:
            sock.sendall(PING)
            while sock.recv(65_536):
                pass
    except OSError:
        pass
    return 1e3 * (monotonic() - began)


def main() -> None:
    """Ask until the input ends."""
    port = int(sys.argv[1])
    longest_ms = 0.0 * ask(port)
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], EVERY_S)[0]:
        longest_ms = max(longest_ms, ask(port))
    print(longest_ms)


if __name__ == "__main__":
    main()
