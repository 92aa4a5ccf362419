# SPDX-License-Identifier: Apache-2.0
"""Which node gets a request: what clients know decides how well they can choose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tests.simulation.fleet import Costs, Fleet, Node, Request

__all__ = ["POLICIES", "latencies", "percentile"]

#: from a fleet and the counts of a client to the next node
Choose = Callable[[Fleet, "ClientView"], Node]
POLL: Final = 2  #: nodes that are compared


class ClientView:
    """What one client knows: which of its own requests have no response."""

    __slots__ = ("busy", "next")

    def __init__(self, start: int) -> None:
        self.busy: dict[int, int] = {}  #: node to requests; nodes without any are left out
        self.next = start  #: of a round


def _random(fleet: Fleet, _view: ClientView) -> Node:
    return fleet.nodes[int(fleet.random.random() * len(fleet.nodes))]


def _round_robin(fleet: Fleet, view: ClientView) -> Node:
    view.next = (view.next + 1) % len(fleet.nodes)
    return fleet.nodes[view.next]


def _least_own(fleet: Fleet, view: ClientView) -> Node:
    """The fewest requests of this client: what servekit-client does."""
    if len(view.busy) < len(fleet.nodes):
        for _ in range(100):
            node = _random(fleet, view)
            if node.number not in view.busy:
                return node
    least = min(view.busy.values())
    return fleet.nodes[
        fleet.random.choice([number for number, load in view.busy.items() if load == least])
    ]


def _best_of_two(fleet: Fleet, view: ClientView) -> Node:
    """The less loaded of two nodes: one balancer, or nodes that say how loaded they are."""
    return min((_random(fleet, view) for _ in range(POLL)), key=lambda node: node.load)


POLICIES: Final[dict[str, Choose]] = {
    "random": _random,
    "round robin": _round_robin,
    "fewest calls of the client": _least_own,
    "the better of two, for all": _best_of_two,
}


def latencies(
    policy: str,
    *,
    nodes: int,
    clients: int,
    load: float,
    requests: int,
    costs: Costs | None = None,
    seed: int = 1,
) -> list[float]:
    """Return how long *requests* took, in seconds, after as many again to warm up.

    :param clients: that choose on their own, each with the same part of the requests.
    :param load: part of the capacity of all nodes.
    """
    fleet = Fleet(nodes, costs or Costs(), seed)
    views = [ClientView(fleet.random.randrange(nodes)) for _ in range(clients)]
    rate = load * fleet.costs.capacity * nodes
    choose, found = POLICIES[policy], list[float]()
    left = 2 * requests

    def arrive() -> None:
        nonlocal left
        left -= 1
        view = views[int(fleet.random.random() * clients)]
        node, began = choose(fleet, view), fleet.now
        view.busy[node.number] = view.busy.get(node.number, 0) + 1

        def done(_status: int) -> None:
            view.busy[node.number] -= 1
            if not view.busy[node.number]:
                del view.busy[node.number]
            found.append(fleet.now - began + fleet.costs.network_s)

        fleet.send(node, Request(began, done))
        if left:
            fleet.after(fleet.random.expovariate(rate), arrive)

    arrive()
    fleet.run(2 * requests / rate + 60)
    return found[requests:]


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that *share* of *values* do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
