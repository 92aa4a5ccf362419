# SPDX-License-Identifier: Apache-2.0
"""Nodes, the requests in them, and the moments at which something happens."""

from __future__ import annotations

import heapq
import json
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final, Protocol

__all__ = ["COSTS", "Costs", "Fleet", "Node", "Request"]

Action = Callable[[], None]

COSTS: Final = Path(__file__).with_name("costs.json")


@dataclass(frozen=True, slots=True)
class Costs:
    """What one node costs, in seconds; ``measure`` says how each of them is measured."""

    batch_s: float  #: of one call of ``predict``, whatever its size
    input_s: float  #: more for each input
    network_s: float  #: of a request without ``predict``: there and back, and the server's share
    refused_s: float = 0.0  #: until a client learns that a port is closed
    start_s: float = 0.0  #: from the start of a server to its first response
    machine: str = ""  #: that was measured
    max_batch: int = 16
    queue: int = 128  #: further requests are refused (429)

    @property
    def capacity(self) -> float:
        """Requests per second of one node, in full batches."""
        return self.max_batch / (self.batch_s + self.input_s * self.max_batch)

    @classmethod
    def measured(cls) -> Costs:
        """Return the costs that were measured last."""
        return cls(**json.loads(COSTS.read_text()))

    def as_json(self) -> dict[str, Any]:
        """Return what was measured."""
        chosen = ("max_batch", "queue")
        return {name: value for name, value in asdict(self).items() if name not in chosen}


class Request(Protocol):
    """One request."""

    def done(self, status: int, /) -> None:
        """Take the status: that of HTTP, 0 for a closed port, or -1 for a lost connection."""


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
            status = 0 if node.state == "closed" else 503
            self.after(self.costs.refused_s, partial(request.done, status))
        elif len(node.waiting) >= self.costs.queue:
            self.after(self.costs.network_s, partial(request.done, 429))
        else:
            node.waiting.append(request)
            if not node.batch and node.state == "up":
                self._take(node)

    def _take(self, node: Node) -> None:
        costs, waiting = self.costs, node.waiting
        size = min(len(waiting), costs.max_batch)
        node.batch = batch = [waiting.popleft() for _ in range(size)]
        self.after(costs.batch_s + costs.input_s * size, partial(self._answer, node, batch))

    def _answer(self, node: Node, batch: list[Request]) -> None:
        if node.batch is not batch or node.state == "hangs":
            return
        node.batch = []
        for request in batch:
            request.done(200)
        if node.waiting and not node.batch:
            self._take(node)

    def kill(self, node: Node, state: str) -> None:
        """Let *node* be ``closed``, so that what it has fails at once, or ``hangs``."""
        node.state = state
        if state == "closed":
            lost, node.waiting, node.batch = [*node.batch, *node.waiting], deque(), []
            for request in lost:
                request.done(-1)
