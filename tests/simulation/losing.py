# SPDX-License-Identifier: Apache-2.0
"""Nodes are lost while clients send requests."""

from collections.abc import Callable
from functools import partial
from typing import Final

from tests.benchmarks.svg import Bar, Chart, Panel
from tests.simulation.balancing import percentile
from tests.simulation.clients import TIMEOUT_S, Chooser, Seen, SparseClient, Traffic
from tests.simulation.fleet import Costs, Fleet
from tests.simulation.page import Section, tell

__all__ = ["LOST_AT_S", "lose_nodes", "section"]

LOST_AT_S: Final = 1.0
TEXT: Final = """\
At 60 % of the capacity. A call fails after 2 s. Clients choose by the rules of
[servekit-client](clients.md#several-servers), and do not repeat a call whose connection was lost.
Of the largest fleets one node in a hundred is lost; figures of the others are means of {seeds}
runs.

"""


def lose_nodes(
    state: str,
    *,
    nodes: int,
    clients: int,
    load: float,
    seconds: float,
    costs: Costs,
    lost: int = 1,
    client: Callable[[Fleet], Chooser] = SparseClient,
    seed: int = 1,
) -> Seen:
    """Return what clients see if nodes are lost after a second.

    :param state: ``closed``: their ports refuse connections; ``hangs``: nothing ever comes.
    :param seconds: after the loss.
    :param lost: how many nodes.
    :param client: makes one.
    """
    fleet = Fleet(nodes, costs, seed)
    traffic = Traffic(fleet, [client(fleet) for _ in range(clients)], load, LOST_AT_S + seconds)
    for node in fleet.nodes[:lost]:
        lose = partial(traffic.hang, node) if state == "hangs" else partial(fleet.kill, node, state)
        fleet.at(LOST_AT_S, lose)
    fleet.run(LOST_AT_S + seconds + TIMEOUT_S + 1)
    return traffic.seen


#: nodes, clients, seconds after the loss if the port is closed, and if the node hangs
LOSSES: Final = ((10, 8, 4, 8), (100, 8, 2, 8), (100, 400, 2, 8), (1000, 4000, 1, 6))
LARGEST_LOSS: Final = (10_000, 40_000, 0.5, 0)  #: closed only: a run with timeouts takes minutes
SEEDS: Final = 5  #: of the small fleets, in which chance plays a part


def section(costs: Costs) -> Section:
    """Return the section on the loss of a node."""
    rows, panels = list[list[object]](), list[Panel]()
    for state, name in (("closed", "its port is closed"), ("hangs", "it hangs")):
        bars = []
        for nodes, clients, closed_s, hangs_s in (*LOSSES, LARGEST_LOSS):
            if seconds := closed_s if state == "closed" else hangs_s:
                tell(f"{nodes} nodes, {clients} clients, nodes are lost: {name}")
                row, failed = loss(state, nodes, clients, seconds, costs)
                rows.append([nodes, clients, name, *row])
                bars.append(Bar(f"{nodes:,} nodes, {clients:,} clients", failed, f"{failed:.1f}"))
        panels.append(Panel(name, bars))
    return Section(
        "fleets-loss",
        Chart("A node is lost", "failed calls for each lost node; shorter is better", panels),
        TEXT.format(seeds=SEEDS),
        "failed calls by nodes and clients",
        [
            "nodes",
            "clients",
            "a lost one",
            "requests",
            "failed for each",
            "last failure after",
            "p99",
        ],
        rows,
    )


def loss(
    state: str, nodes: int, clients: int, seconds: float, costs: Costs
) -> tuple[list[object], float]:
    """Return the figures of a loss, and the failed calls for each lost node."""
    seeds = range(1, 1 + (SEEDS if nodes <= 100 else 1))
    lost = max(1, nodes // 100)
    runs = [
        lose_nodes(
            state,
            nodes=nodes,
            clients=clients,
            load=0.6,
            seconds=seconds,
            costs=costs,
            lost=lost,
            seed=seed,
        )
        for seed in seeds
    ]
    failed = sum(run.failed for run in runs) / len(runs) / lost
    after_s = max(
        (at - 3.0 if state == "hangs" else at - 1.0 for run in runs for at in run.failed_s),
        default=0.0,
    )
    requests = sum(sum(run.statuses.values()) for run in runs) // len(runs)
    p99 = percentile([each for run in runs for each in run.latencies], 0.99) * 1e3
    return [requests, f"{failed:.1f}", f"{after_s:.1f} s", f"{p99:.1f} ms"], failed
