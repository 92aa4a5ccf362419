# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.benchmarks.new_connections``: what clients feel while others connect anew.

wrk opens a connection for each prediction, as clients without a pool do. Meanwhile one client asks
for ``/ping`` on a connection that it keeps, at fixed moments: each delay in a front-end is one of
its latencies.
"""

import argparse
import socket
import sys
import tempfile
from pathlib import Path
from time import monotonic, sleep
from typing import Final
from urllib.parse import urlsplit

from servekit.testing import ServedModel
from tests.benchmarks import encoding, wrk
from tests.benchmarks.cases import SUM
from tests.benchmarks.servers import MODELS

PING: Final = b"GET /ping HTTP/1.1\r\nHost: bench\r\n\r\n"
RATE: Final = 200.0  #: pings a second


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.new_connections", description=__doc__
    )
    parser.add_argument("--seconds", type=int, default=10, help="default: %(default)s")
    parser.add_argument("--connections", type=int, default=16, help="default: %(default)s")
    options = parser.parse_args()
    headers = (("Content-Type", encoding.CONTENT_TYPES[SUM.form]), ("Connection", "close"))
    with tempfile.NamedTemporaryFile() as body, ServedModel(MODELS / "sum", http2=False) as server:
        body.write(SUM.body(SUM.values()))
        body.flush()
        url = server.wait_ready().url
        target = wrk.Target(url=f"{url}/sum/predict", body=Path(body.name), headers=headers)
        with wrk.running(
            target, connections=options.connections, seconds=options.seconds
        ) as process:
            waits = pings(url, options.seconds)
            load = wrk.parse(process.communicate(timeout=options.seconds)[0])
    waits.sort()
    print(f"new connections: {load.requests_per_s:,.0f} a second")
    for name, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)):
        print(f"/ping {name}: {waits[int(share * len(waits))] * 1e3:.1f} ms")
    print(f"/ping longest: {waits[-1] * 1e3:.1f} ms")
    return 0


def pings(url: str, seconds: float) -> list[float]:
    """Return how long each answer took, in seconds from the moment at which it was due."""
    where, waits = urlsplit(url), []
    began = monotonic() + 0.5  # wrk has begun by then
    with socket.create_connection((where.hostname, where.port)) as sock:
        for number in range(int((seconds - 1) * RATE)):
            due = began + number / RATE
            sleep(max(0.0, due - monotonic()))
            sock.sendall(PING)
            if not sock.recv(4096).startswith(b"HTTP/1.1 200"):
                raise SystemExit("/ping was not 200")
            waits.append(monotonic() - due)
    return waits


if __name__ == "__main__":
    sys.exit(main())
