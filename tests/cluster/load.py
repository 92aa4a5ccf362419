# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.cluster.load KIND WHERE``: clients of a Service, until their input ends.

Prints a line, ``answered by VERSION``, for the first answer of each version; at the end, a JSON
object: how many requests were answered, which were lost, and by which versions.

file   servekit-client with FileDiscovery; WHERE is the file
dns    servekit-client with DnsDiscovery; WHERE is a URL with the name of the Service
kept   connections that are kept and never made twice for a request, as through a cluster IP;
       WHERE is the file with the addresses that a connection may get
http2  the same with HTTP/2
"""

import argparse
import http.client
import itertools
import json
import random
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import httpcore
from servekit_client import Client, DnsDiscovery, FileDiscovery

LOST = 20  #: how many are described
TIMEOUT_S = 30.0


class Ledger:
    """What became of the requests. Any thread may add to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.versions: Counter[str] = Counter()
        self.lost: list[str] = []
        self.slowest_s = 0.0
        self.retried = 0

    def add(self, number: int, began: float, ask: Callable[[int], Any]) -> None:
        """Ask once, and note the outcome."""
        try:
            outcome = ask(number)
            problem = "" if outcome["n"] == number else f"{number} is answered {outcome}"
        except Exception as error:  # whatever it is, the request is lost
            outcome, problem = {}, f"{monotonic() - began:.3f} s: {type(error).__name__}: {error}"
        with self._lock:
            self.slowest_s = max(self.slowest_s, monotonic() - began)
            if problem:
                self.lost.append(problem)
            else:
                self._answered(outcome["version"])

    def _answered(self, version: str) -> None:
        if version not in self.versions:
            print("answered by", version, flush=True)
        self.versions[version] += 1


def library_client(client: Client) -> Callable[[], Callable[[int], Any]]:
    """Return what makes a function that asks by servekit-client."""
    return lambda: lambda number: client.predict("digits", number)


class KeptConnection:
    """Asks over one connection after another: HTTP/1.1, nothing is tried twice."""

    def __init__(self, endpoints: Path) -> None:
        self._endpoints = endpoints
        self._connection: http.client.HTTPConnection | None = None

    def __call__(self, number: int) -> Any:
        if self._connection is None:
            self._connection = http.client.HTTPConnection(
                choose(self._endpoints), timeout=TIMEOUT_S
            )
        connection = self._connection
        try:
            connection.request(
                "POST", "/digits/predict", str(number), {"Content-Type": "application/json"}
            )
            answer = connection.getresponse()
            body = answer.read()
        except BaseException:
            self._close(connection)
            raise
        if answer.will_close:
            self._close(connection)
        assert answer.status == 200, f"{answer.status} {body!r}"
        return json.loads(body)["prediction"]

    def _close(self, connection: http.client.HTTPConnection) -> None:
        connection.close()
        self._connection = None


class ClusterIp(httpcore.NetworkBackend):
    """Connects to one of the endpoints, whatever the address is."""

    def __init__(self, endpoints: Path) -> None:
        self._endpoints, self._sync = endpoints, httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        host, _, number = choose(self._endpoints).partition(":")
        return self._sync.connect_tcp(host, int(number), timeout, local_address, socket_options)


def http2_client(endpoints: Path) -> Callable[[int], Any]:
    """Return a function that asks over a connection of HTTP/2."""
    pool = httpcore.ConnectionPool(
        http1=False, http2=True, max_connections=1, network_backend=ClusterIp(endpoints)
    )
    headers, timeouts = {"Content-Type": "application/json"}, {"read": TIMEOUT_S}

    def ask(number: int) -> Any:
        answer = pool.request(
            "POST", "http://digits/digits/predict", headers=headers, content=str(number).encode(),
            extensions={"timeout": timeouts},
        )  # fmt: skip
        assert answer.status == 200, f"{answer.status} {answer.content!r}"
        return json.loads(answer.content)["prediction"]

    return ask


def choose(endpoints: Path) -> str:
    """Return ``ADDRESS:PORT`` of one of the endpoints."""
    return urlsplit(random.choice(json.loads(endpoints.read_text()))).netloc


def drive(make: Callable[[], Callable[[int], Any]], rate: float, threads: int) -> Ledger:
    """Send *rate* requests per second in all until the input of this process ends."""
    ledger, is_over, numbers = Ledger(), threading.Event(), itertools.count()

    def repeat() -> None:
        ask, pause_s = make(), threads / rate
        is_over.wait(random.uniform(0, pause_s))
        while not is_over.is_set():
            began = monotonic()
            ledger.add(next(numbers), began, ask)
            is_over.wait(began + pause_s - monotonic())

    workers = [threading.Thread(target=repeat) for _ in range(threads)]
    for worker in workers:
        worker.start()
    sys.stdin.read()
    is_over.set()
    for worker in workers:
        worker.join()
    return ledger


def main() -> None:
    """Read the command line, ask, and print what came of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["file", "dns", "kept", "http2"])
    parser.add_argument("where")
    parser.add_argument("--rate", type=float, default=20.0, help="requests per second")
    parser.add_argument("--threads", type=int, default=4)
    args = parser.parse_args()
    where = Path(args.where)
    makers: dict[str, Callable[[], Callable[[], Callable[[int], Any]]]] = {
        "file": lambda: library_client(Client(FileDiscovery(where))),
        "dns": lambda: library_client(Client(DnsDiscovery(args.where))),
        "kept": lambda: lambda: KeptConnection(where),
        "http2": lambda: lambda: http2_client(where),
    }
    ledger = drive(makers[args.kind](), args.rate, args.threads)
    found = {
        "answered": dict(ledger.versions),
        "lost": len(ledger.lost),
        "examples": ledger.lost[:LOST],
        "slowest_s": round(ledger.slowest_s, 3),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
