# SPDX-License-Identifier: Apache-2.0
"""Clients that choose as servekit-client does, cheap enough for thousands of them and of nodes.

``servekit_client.servers.Servers`` looks at every server for each call. ``SparseClient`` has the
same rules and keeps only the nodes that it has calls at, or that failed. A test compares the two.
"""

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from servekit_client.attempts import OTHERS
from servekit_client.servers import FAILURES, FIRST_REST_S, LONGEST_REST_S

from tests.simulation.fleet import Fleet, Node

__all__ = ["Chooser", "Seen", "SparseClient", "Traffic"]

TIMEOUT_S: Final = 2.0  #: of a client's call
REFUSED, LOST, TIMED_OUT = 0, -1, 504
OF_SERVER: Final = (REFUSED, LOST, 503, TIMED_OUT)  #: statuses that say that the node is in trouble
RETRIED: Final = (REFUSED, 429, 503)
DRAWS: Final = 30  #: until all nodes are looked at


class Chooser(Protocol):
    """What a client knows of the nodes."""

    def choose(self, tried: list[int]) -> int:
        """Return the node of the next call, which begins; *tried* ones only if all were."""

    def end(self, node: int, status: int) -> None:
        """Note how a call has ended."""

    def has_other(self, tried: list[int]) -> bool:
        """Whether a node that answers has not been *tried*."""


@dataclass(slots=True)
class Trouble:
    """A node that has failed, as one client sees it."""

    failures: int = 0  #: one after the other
    rests: int = 0
    rests_until: float = 0.0
    is_tried: bool = False  #: one call finds out whether it answers again


class SparseClient:
    """One client."""

    def __init__(self, fleet: Fleet) -> None:
        """Know all nodes of *fleet*."""
        self._fleet = fleet
        self._calls: dict[int, int] = {}
        self._troubles: dict[int, Trouble] = {}

    def choose(self, tried: list[int]) -> int:
        """Return the node with the fewest calls of this client."""
        count, draw = len(self._fleet.nodes), self._fleet.random.random
        for _ in range(DRAWS if len(self._calls) < count else 0):
            node = int(draw() * count)
            if node not in self._calls and node not in tried and not self._rests(node):
                break
        else:
            node = min(range(count), key=partial(self._order, tried))
        if (trouble := self._troubles.get(node)) is not None:
            trouble.is_tried = trouble.rests > 0 and trouble.rests_until <= self._fleet.now
        self._calls[node] = self._calls.get(node, 0) + 1
        return node

    def _rests(self, node: int) -> bool:
        """Whether calls avoid *node*: it rests, or one call finds out whether it answers again."""
        trouble = self._troubles.get(node)
        return trouble is not None and (trouble.is_tried or trouble.rests_until > self._fleet.now)

    def _order(self, tried: list[int], node: int) -> tuple[bool, bool, float, int, float]:
        trouble, calls = self._troubles.get(node), self._calls.get(node, 0)
        rest_s = max(0.0, trouble.rests_until - self._fleet.now) if trouble else 0.0
        return self._rests(node), node in tried, rest_s, calls, self._fleet.random.random()

    def end(self, node: int, status: int) -> None:
        """Note how a call has ended; a node that fails three times rests, longer each time."""
        if self._calls[node] == 1:
            del self._calls[node]
        else:
            self._calls[node] -= 1
        if status not in OF_SERVER:
            self._troubles.pop(node, None)
            return
        trouble = self._troubles.setdefault(node, Trouble())
        trouble.is_tried = False
        trouble.failures += FAILURES if status == REFUSED else 1
        if trouble.failures >= FAILURES:
            rest_s = min(FIRST_REST_S * 2**trouble.rests, LONGEST_REST_S)
            trouble.rests_until = self._fleet.now + rest_s
            trouble.rests, trouble.failures = trouble.rests + 1, FAILURES - 1

    def has_other(self, tried: list[int]) -> bool:
        """Whether a node that answers has not been *tried*."""
        resting = {n for n, each in self._troubles.items() if each.rests_until > self._fleet.now}
        return len(self._fleet.nodes) > len(resting.union(tried))


@dataclass(slots=True)
class Seen:
    """What clients saw."""

    statuses: Counter[int] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)
    failed_s: list[float] = field(default_factory=list)  #: when calls failed

    @property
    def failed(self) -> int:
        """How many calls were not answered with 200."""
        return sum(count for status, count in self.statuses.items() if status != 200)


class Traffic:
    """Clients that send requests at a steady rate, each with its own view of the nodes."""

    def __init__(self, fleet: Fleet, clients: list[Chooser], load: float, until: float) -> None:
        """Begin at once; *load* is part of the capacity of all nodes."""
        self.fleet, self.until = fleet, until
        self.seen = Seen()
        self._clients = clients
        self._rate = load * fleet.costs.capacity * len(fleet.nodes)
        fleet.after(0.0, self._arrive)

    def _arrive(self) -> None:
        fleet = self.fleet
        client = self._clients[int(fleet.random.random() * len(self._clients))]
        Call(self, client, fleet.now, []).send()
        if fleet.now < self.until:
            fleet.after(fleet.random.expovariate(self._rate), self._arrive)

    def hang(self, node: Node) -> None:
        """Let *node* hang: what it has, and what it gets, times out."""
        self.fleet.kill(node, "hangs")
        for call in (*node.batch, *node.waiting):
            assert isinstance(call, Call)
            self.fleet.at(call.sent + TIMEOUT_S, partial(call.done, TIMED_OUT))


class Call:
    """One call of a client, with its second tries."""

    __slots__ = ("asked", "began", "client", "is_over", "node", "sent", "traffic", "tried")

    def __init__(self, traffic: Traffic, client: Chooser, began: float, tried: list[int]) -> None:
        self.traffic, self.client, self.began, self.tried = traffic, client, began, tried
        self.is_over = False
        self.asked = 0  #: nodes that were too busy

    def send(self) -> None:
        """Choose a node, and send it there."""
        fleet = self.traffic.fleet
        self.node, self.sent = self.client.choose(self.tried), fleet.now
        self.tried.append(self.node)
        node = fleet.nodes[self.node]
        fleet.send(node, self)
        if node.state == "hangs":
            fleet.after(TIMEOUT_S, partial(self.done, TIMED_OUT))

    def done(self, status: int) -> None:
        """Note how it has ended, or try another node."""
        if self.is_over:
            return
        self.is_over = True
        self.client.end(self.node, status)
        seen, fleet = self.traffic.seen, self.traffic.fleet
        may_ask = status == REFUSED or self.asked < OTHERS
        if status in RETRIED and may_ask and self.client.has_other(self.tried):
            again = Call(self.traffic, self.client, self.began, self.tried)
            again.asked = self.asked + (status != REFUSED)
            again.send()
            return
        seen.statuses[status] += 1
        if status == 200:
            seen.latencies.append(fleet.now - self.began + fleet.costs.network_s)
        else:
            seen.failed_s.append(fleet.now)
