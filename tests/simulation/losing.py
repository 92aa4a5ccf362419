# SPDX-License-Identifier: Apache-2.0
"""A node is lost, or many are replaced one after the other, while clients send requests.

The clients choose with the class of servekit-client that does it in programs.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from unittest.mock import patch

from servekit_client import ConnectionRefused, DeadlineExceeded, QueueFull, Unavailable, Unreachable
from servekit_client.servers import Lease, Servers

from tests.simulation.fleet import Costs, Fleet, Request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servekit_client.errors import ServekitError

__all__ = ["Loss", "lose_a_node", "roll"]

TIMEOUT_S: Final = 2.0  #: of a client's call
ERRORS: Final[dict[int, type[ServekitError]]] = {
    0: ConnectionRefused,
    -1: Unreachable,
    429: QueueFull,
    503: Unavailable,
    504: DeadlineExceeded,
}
RETRIED: Final = (0, 429, 503)


class Loss:
    """What clients saw."""

    def __init__(self) -> None:
        self.statuses: Counter[int] = Counter()
        self.latencies: list[float] = []
        self.failed_s: list[float] = []  #: when calls failed


class Traffic:
    """Clients that send requests at a steady rate, each with its own view of the nodes."""

    def __init__(self, fleet: Fleet, clients: int, load: float, until: float) -> None:
        self.fleet, self.until = fleet, until
        self.seen = Loss()
        urls = [f"http://node-{node.number}" for node in fleet.nodes]
        self._by_url = dict(zip(urls, fleet.nodes, strict=True))
        self._clients = [Servers(urls) for _ in range(clients)]
        self._rate = load * fleet.costs.capacity * len(fleet.nodes)
        fleet.after(0.0, self._arrive)

    def _arrive(self) -> None:
        fleet = self.fleet
        servers = self._clients[fleet.random.randrange(len(self._clients))]
        self._try(servers, fleet.now, [])
        if fleet.now < self.until:
            fleet.after(fleet.random.expovariate(self._rate), self._arrive)

    def _try(self, servers: Servers, began: float, tried: list[str]) -> None:
        lease, fleet = servers.lease(tried), self.fleet
        tried.append(lease.url)
        is_over = False

        def done(status: int) -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                self._end(servers, lease, began, tried, status)

        fleet.send(self._by_url[lease.url], Request(fleet.now, done))
        fleet.after(TIMEOUT_S, lambda: done(504))

    def _end(
        self, servers: Servers, lease: Lease, began: float, tried: list[str], status: int
    ) -> None:
        error = ERRORS.get(status)
        if error is None:
            lease.end()
        else:
            lease.end(error(status=None if status == 504 else status))
            if status in RETRIED and servers.has_other(tried):
                self._try(servers, began, tried)
                return
        self.seen.statuses[status] += 1
        if status == 200:
            self.seen.latencies.append(self.fleet.now - began + self.fleet.costs.network_s)
        else:
            self.seen.failed_s.append(self.fleet.now)


@contextmanager
def _clock(fleet: Fleet) -> Iterator[None]:
    """Let the client's class see the simulated time and its random numbers."""
    with (
        patch("servekit_client.servers.monotonic", lambda: fleet.now),
        patch("servekit_client.servers.random", fleet.random.random),
    ):
        yield


def lose_a_node(
    state: str, *, nodes: int, clients: int, load: float, seconds: float = 10.0, seed: int = 1
) -> Loss:
    """Return what clients see if a node is lost after 2 s.

    :param state: ``closed``: its port refuses connections; ``hangs``: nothing ever comes.
    """
    fleet = Fleet(nodes, Costs(), seed)
    with _clock(fleet):
        traffic = Traffic(fleet, clients, load, seconds)
        fleet.at(2.0, lambda: fleet.kill(fleet.nodes[0], state))
        fleet.run(seconds + TIMEOUT_S + 1)
    return traffic.seen


def roll(
    *, nodes: int, at_once: int, clients: int, load: float, out_s: float = 3.0, seed: int = 1
) -> tuple[Loss, float]:
    """Return what clients see while all nodes are replaced, and how long that takes.

    Each node refuses new requests with 503, finishes what it has, and is back after *out_s*.

    :param at_once: nodes that are replaced at the same time.
    """
    fleet = Fleet(nodes, Costs(), seed)
    rounds = -(-nodes // at_once)
    seconds = rounds * out_s

    def replace(first: int) -> None:
        for node in fleet.nodes[first : first + at_once]:
            node.state = "drains"
            fleet.after(out_s, lambda node=node: setattr(node, "state", "up"))  # type: ignore[misc]

    with _clock(fleet):
        traffic = Traffic(fleet, clients, load, seconds + 1)
        for number in range(rounds):
            fleet.at(0.5 + number * out_s, lambda number=number: replace(number * at_once))  # type: ignore[misc]
        fleet.run(seconds + TIMEOUT_S + 2)
    return traffic.seen, seconds
