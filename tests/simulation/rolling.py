# SPDX-License-Identifier: Apache-2.0
"""Nodes are replaced, some at a time, while clients send requests."""

from collections.abc import Callable
from functools import partial
from typing import Final

from tests.benchmarks.svg import Bar, Chart, Panel
from tests.simulation.balancing import percentile
from tests.simulation.clients import TIMEOUT_S, Chooser, Seen, SparseClient, Traffic
from tests.simulation.fleet import Costs, Fleet, Node
from tests.simulation.page import Section, tell

__all__ = ["roll", "section"]

SETTLED_S: Final = 0.5  #: before nodes are replaced
TEXT: Final = """\
Each node is away for {start_s:.1f} s, the time of a start: it refuses new requests, finishes what
it has, and its successor loads. Clients choose as servekit-client does with `retries=0`: a call
asks three more nodes at once. They rest a node that refuses their requests for a second or more, so
it gets few requests when it is back. Of the largest fleets one or two rounds are simulated, because
all rounds are alike.

"""


def roll(
    *,
    nodes: int,
    at_once: int,
    clients: int,
    load: float,
    costs: Costs,
    rounds: int = 0,
    away_s: float = 0.0,
    client: Callable[[Fleet], Chooser] = SparseClient,
    seed: int = 1,
) -> Seen:
    """Return what clients see while nodes are replaced.

    Each node refuses new requests with 503, finishes what it has, and is back after *away_s*.

    :param at_once: nodes that are replaced at the same time.
    :param rounds: of *at_once* nodes; 0: until all are replaced.
    :param away_s: 0: as long as a server takes to start.
    :param client: makes one.
    """
    fleet, away_s = Fleet(nodes, costs, seed), away_s or costs.start_s
    rounds = rounds or -(-nodes // at_once)
    until = SETTLED_S + rounds * away_s + SETTLED_S
    traffic = Traffic(fleet, [client(fleet) for _ in range(clients)], load, until)
    for number in range(rounds):
        group = fleet.nodes[number * at_once : (number + 1) * at_once]
        at = SETTLED_S + number * away_s
        fleet.at(at, partial(_set, group, "drains"))
        fleet.at(at + away_s, partial(_set, group, "up"))
    fleet.run(until + TIMEOUT_S + 1)
    return traffic.seen


def _set(group: list[Node], state: str) -> None:
    for node in group:
        node.state = state


#: nodes, at a time, clients, rounds that are simulated (0: all), and for how many seconds each
ROLLS: Final = (
    (4, 1, 16, 0, 0.0),
    (10, 1, 40, 0, 0.0),
    (10, 3, 40, 0, 0.0),
    (100, 10, 400, 0, 0.0),
    (1000, 100, 4000, 2, 1.0),
    (10_000, 1000, 40_000, 1, 0.5),
)


def section(costs: Costs) -> Section:
    """Return the section on the replacement of all nodes."""
    rows, panels = list[list[object]](), list[Panel]()
    for load in (0.6, 0.8):
        bars = []
        for nodes, at_once, clients, rounds, away_s in ROLLS:
            tell(f"{nodes} nodes, {at_once} replaced at a time, load {load}")
            seen = roll(
                nodes=nodes, at_once=at_once, clients=clients, load=load, costs=costs,
                rounds=rounds, away_s=away_s,
            )  # fmt: skip
            left = load * nodes / (nodes - at_once)
            share = seen.failed / sum(seen.statuses.values())
            p99 = percentile(seen.latencies, 0.99) * 1e3
            takes = f"{-(-nodes // at_once) * costs.start_s:.0f} s"
            shares = f"{load:.0%}", f"{left:.0%}"
            rows.append([nodes, at_once, *shares, takes, f"{share:.1%}", f"{p99:.1f} ms"])
            bars.append(Bar(f"{at_once:,} of {nodes:,}", p99, f"{p99:.0f} ms, {share:.0%}"))
        panels.append(Panel(f"load {load:.0%}", bars))
    return Section(
        "fleets-rolling",
        Chart(
            "All nodes are replaced",
            "p99, and the share of failed calls; shorter is better",
            panels,
        ),
        TEXT.format(start_s=costs.start_s),
        "p99 and failed calls by load and nodes",
        ["nodes", "at a time", "load", "load of the others", "takes", "failed", "p99"],
        rows,
    )
