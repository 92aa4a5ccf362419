# SPDX-License-Identifier: Apache-2.0
"""Which node gets a request: what clients know decides how well they can choose."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tests.benchmarks.svg import Bar, Chart, Panel
from tests.simulation.fleet import Costs, Fleet, Node
from tests.simulation.page import Section, tell

__all__ = ["POLICIES", "latencies", "percentile", "section"]

#: from a fleet and the counts of a client to the next node
Choose = Callable[[Fleet, "ClientView"], Node]
MOST_TRACKED: Final = 100_000  #: nodes that all clients together keep lists of
POLL: Final = 2  #: nodes that are compared
OWN: Final = "fewest calls of the client"
REQUESTS: Final = 80  #: for each node, and as many to warm up: longer runs have the same results
FEWEST: Final = 20_000
MOST: Final = 400_000


class Pool:
    """Numbers of nodes, one of which can be drawn."""

    __slots__ = ("_numbers", "_places")

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        self._numbers = list(numbers)
        self._places = {number: place for place, number in enumerate(self._numbers)}

    def add(self, number: int) -> None:
        """Add a node that is not in it."""
        self._places[number] = len(self._numbers)
        self._numbers.append(number)

    def remove(self, number: int) -> None:
        """Remove a node: the last one takes its place."""
        last, place = self._numbers.pop(), self._places.pop(number)
        if last != number:
            self._numbers[place], self._places[last] = last, place

    def draw(self, random: float) -> int:
        """Return one of the nodes; *random* is from 0 to 1."""
        return self._numbers[int(random * len(self._numbers))]

    def __len__(self) -> int:
        return len(self._numbers)


class ClientView:
    """What one client knows: how many of its own requests each node has."""

    __slots__ = ("_calls", "_pools", "next")

    def __init__(self, start: int, nodes: int, clients: int) -> None:
        """Begin a round at *start*, as one of so many clients."""
        self.next = start
        self._calls: dict[int, int] = {}  #: nodes without any are left out
        self._pools: dict[int, Pool] = {}  #: nodes by their number of calls, if it is above 0
        if nodes * clients <= MOST_TRACKED:
            self._pools[0] = Pool(range(nodes))

    def add(self, node: int, change: int) -> None:
        """Note that a request begins (1) or ends (-1)."""
        before = self._calls.pop(node, 0)
        after = before + change
        if after:
            self._calls[node] = after
        for count, act in ((before, Pool.remove), (after, Pool.add)):
            if count or 0 in self._pools:
                act(self._pools.setdefault(count, Pool()), node)

    def least(self, nodes: int, random: Callable[[], float]) -> int:
        """Return one of the nodes with the fewest requests."""
        while 0 not in self._pools:  # there are many more nodes than requests
            if (node := int(random() * nodes)) not in self._calls:
                return node
        fewest = min(count for count, pool in self._pools.items() if pool)
        return self._pools[fewest].draw(random())


def _random(fleet: Fleet, _view: ClientView) -> Node:
    return fleet.nodes[int(fleet.random.random() * len(fleet.nodes))]


def _round_robin(fleet: Fleet, view: ClientView) -> Node:
    view.next = (view.next + 1) % len(fleet.nodes)
    return fleet.nodes[view.next]


def _least_own(fleet: Fleet, view: ClientView) -> Node:
    """The fewest requests of this client: what servekit-client does."""
    return fleet.nodes[view.least(len(fleet.nodes), fleet.random.random)]


def _best_of_two(fleet: Fleet, view: ClientView) -> Node:
    """The less loaded of two nodes: one balancer, or nodes that say how loaded they are."""
    return min((_random(fleet, view) for _ in range(POLL)), key=lambda node: node.load)


POLICIES: Final[dict[str, Choose]] = {
    "random": _random,
    "round robin": _round_robin,
    OWN: _least_own,
    "the better of two, for all": _best_of_two,
}


def latencies(
    policy: str,
    *,
    nodes: int,
    clients: int,
    load: float,
    requests: int,
    costs: Costs,
    seed: int = 1,
) -> list[float]:
    """Return how long *requests* took, in seconds, after as many again to warm up.

    :param clients: that choose on their own, each with the same part of the requests.
    :param load: part of the capacity of all nodes.
    """
    fleet = Fleet(nodes, costs, seed)
    views = [ClientView(fleet.random.randrange(nodes), nodes, clients) for _ in range(clients)]
    rate = load * costs.capacity * nodes
    choose, found = POLICIES[policy], list[float]()
    left = 2 * requests

    def arrive() -> None:
        nonlocal left
        left -= 1
        view = views[int(fleet.random.random() * clients)]
        node = choose(fleet, view)
        fleet.send(node, Call(fleet, view, node.number, found))
        if left:
            fleet.after(fleet.random.expovariate(rate), arrive)

    arrive()
    fleet.run(2 * requests / rate + 60)
    return found[requests:]


class Call:
    """One request of a client."""

    __slots__ = ("began", "fleet", "found", "number", "view")

    def __init__(self, fleet: Fleet, view: ClientView, number: int, found: list[float]) -> None:
        self.fleet, self.view, self.number, self.found = fleet, view, number, found
        self.began = fleet.now
        view.add(number, 1)

    def done(self, _status: int) -> None:
        """Note how long it took."""
        self.view.add(self.number, -1)
        self.found.append(self.fleet.now - self.began + self.fleet.costs.network_s)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that *share* of *values* do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def section(costs: Costs) -> Section:
    """Return the section on which node gets a request."""
    rows, panels = list[list[object]](), list[Panel]()
    for nodes in (10, 100, 1000, 10_000):
        for clients in (4, 4 * nodes):
            bars = []
            for policy in POLICIES:
                tell(f"{nodes} nodes, {clients} clients, {policy}")
                count = min(max(FEWEST, REQUESTS * nodes), MOST)
                found = latencies(
                    policy, nodes=nodes, clients=clients, load=0.8, requests=count, costs=costs
                )
                p50, p99 = (percentile(found, share) * 1e3 for share in (0.5, 0.99))
                rows.append([nodes, clients, policy, f"{p50:.1f} ms", f"{p99:.1f} ms"])
                bars.append(Bar(policy, p99, f"{p99:.1f} ms", "own" if policy == OWN else ""))
            panels.append(Panel(f"{nodes:,} nodes, {clients:,} clients", bars))
    return Section(
        "fleets-balancing",
        Chart(
            "Which node gets a request", "p99 at 80 % of the capacity; shorter is better", panels
        ),
        "At 80 % of the capacity of all nodes.\n\n",
        "p99 by policy, nodes and clients",
        ["nodes", "clients", "policy", "p50", "p99"],
        rows,
    )
