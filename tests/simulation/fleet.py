# SPDX-License-Identifier: Apache-2.0
"""Nodes, the requests in them, and the moments at which something happens."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Final

__all__ = ["Costs", "Fleet", "Node", "Request"]

Action = Callable[[], None]

#: connections to a closed port are refused at once; a client learns of it after a round trip
REFUSED_S: Final = 0.0005


@dataclass(frozen=True, slots=True)
class Costs:
    """What one node costs, in seconds; measured where a number is given for it in the docs."""

    batch_s: float = 0.004  #: of one call of ``predict``, whatever its size
    input_s: float = 0.0005  #: more for each input
    max_batch: int = 16
    queue: int = 1024  #: further requests are refused (429)
    network_s: float = 0.0005  #: there and back, with the server's own share

    @property
    def capacity(self) -> float:
        """Requests per second of one node, in full batches."""
        return self.max_batch / (self.batch_s + self.input_s * self.max_batch)


@dataclass(slots=True, eq=False)
class Request:
    """One request; ``done`` is called with its status."""

    began: float
    done: Callable[[int], None]
    status: int = 0


@dataclass(slots=True, eq=False)
class Node:
    """A server with one worker, which takes what waits as soon as it is idle."""

    number: int
    waiting: deque[Request] = field(default_factory=deque)
    batch: list[Request] = field(default_factory=list)  #: in the worker
    state: str = "up"  #: ``up``, ``drains``, ``closed``, or ``hangs``

    @property
    def load(self) -> int:
        """Requests that have no response yet."""
        return len(self.waiting) + len(self.batch)


class Fleet:
    """Nodes in simulated time."""

    def __init__(self, nodes: int, costs: Costs, seed: int) -> None:
        """Start *nodes* idle nodes at the time 0."""
        self.costs = costs
        self.random = Random(seed)
        self.nodes = [Node(number) for number in range(nodes)]
        self.now = 0.0
        self._events: list[tuple[float, int, Action]] = []
        self._numbers = count()

    def at(self, time: float, action: Action) -> None:
        """Have *action* happen at *time*."""
        heapq.heappush(self._events, (time, next(self._numbers), action))

    def after(self, delay: float, action: Action) -> None:
        """Have *action* happen after *delay* seconds."""
        self.at(self.now + delay, action)

    def run(self, until: float) -> None:
        """Let everything happen that happens before *until*."""
        while self._events and self._events[0][0] <= until:
            self.now, _, action = heapq.heappop(self._events)
            action()
        self.now = until

    # ------------------------------------------------------------ requests

    def send(self, node: Node, request: Request) -> None:
        """Have *request* arrive at *node*."""
        if node.state in ("closed", "drains"):
            self.after(REFUSED_S, lambda: request.done(0 if node.state == "closed" else 503))
        elif len(node.waiting) >= self.costs.queue:
            self.after(self.costs.network_s, lambda: request.done(429))
        else:
            node.waiting.append(request)
            if not node.batch and node.state == "up":
                self._take(node)

    def _take(self, node: Node) -> None:
        costs = self.costs
        size = min(len(node.waiting), costs.max_batch)
        node.batch = [node.waiting.popleft() for _ in range(size)]
        batch = node.batch
        self.after(costs.batch_s + costs.input_s * size, lambda: self._answer(node, batch))

    def _answer(self, node: Node, batch: list[Request]) -> None:
        if node.batch is not batch or node.state == "hangs":
            return
        node.batch = []
        for request in batch:
            request.done(200)
        if node.waiting:
            self._take(node)

    def kill(self, node: Node, state: str) -> None:
        """Let *node* be ``closed``, so that what it has fails at once, or ``hangs``."""
        node.state = state
        if state == "closed":
            lost, node.waiting, node.batch = [*node.batch, *node.waiting], deque(), []
            for request in lost:
                request.done(-1)
