# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.simulation [--publish]``: prints, or writes, ``docs/fleets.md``."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.benchmarks.svg import Bar, Chart, Panel
from tests.scale.table import table
from tests.simulation.balancing import POLICIES, latencies, percentile
from tests.simulation.fleet import Costs
from tests.simulation.growing import Scaler, grow
from tests.simulation.losing import Loss, lose_a_node, roll

PAGE: Final = Path(__file__).parents[2] / "docs" / "fleets.md"
PICTURES: Final = PAGE.parent / "images"
OWN: Final = "fewest calls of the client"

HEAD: Final = """\
# Many nodes

Written by `python -m tests.simulation --publish`: nodes of servekit and their clients, simulated.
[Beyond one machine](scaling.md#beyond-one-machine) draws the conclusions.

A simulated node has one worker, which takes the waiting requests when it is idle.
A call of `predict` takes {batch_ms:g} ms and {input_ms:g} ms for each input, and has at most
{max_batch} inputs; a request takes {network_ms:g} ms besides, and {queue} requests can wait.
That is a capacity of {capacity:,.0f} requests per second and node. Where a node is lost, and
where all are replaced, clients choose with the code of servekit-client. Arrivals are random
(Poisson); the seed is fixed, so every figure can be had again.

"""
LOSING: Final = """\
## A node is lost

At 60 % of the capacity, for eight seconds after the loss. A call fails after 2 s.

"""
ROLLING: Final = """\
## All nodes are replaced

Each is away for 3 s: it refuses new requests, finishes what it has, and its successor loads.

"""
GROWING: Final = """\
## The load grows at once

From half the capacity of 10 nodes. "Refused" is the share of the ten minutes that follow.

"""


def main(argv: Sequence[str] | None = None) -> int:
    """Simulate, and print or write the page."""
    parser = argparse.ArgumentParser(prog="tests.simulation", description=__doc__)
    parser.add_argument("--publish", action="store_true", help="write the page and its pictures")
    parser.add_argument("--requests", type=int, default=30_000, help="of each run (default: 30000)")
    parsed = parser.parse_args(argv)
    chart, text = _balancing(parsed.requests)
    page = "".join([_head(), text, *_losing(), *_rolling(), *_growing()])
    if parsed.publish:
        PAGE.write_text(page)
        (PICTURES / "fleets-balancing.svg").write_text(chart.text)
    else:
        print(page)
    return 0


def _head() -> str:
    costs = Costs()
    return HEAD.format(
        batch_ms=costs.batch_s * 1e3,
        input_ms=costs.input_s * 1e3,
        max_batch=costs.max_batch,
        network_ms=costs.network_s * 1e3,
        queue=costs.queue,
        capacity=costs.capacity,
    )


def _told(text: str) -> None:
    sys.stderr.write(f"simulation: {text}\n")


def _balancing(requests: int) -> tuple[Chart, str]:
    rows, panels = list[list[object]](), list[Panel]()
    for nodes in (10, 100, 1000, 10_000):
        for clients in (4, 4 * nodes):
            bars = []
            for policy in POLICIES:
                _told(f"{nodes} nodes, {clients} clients, {policy}")
                count = max(requests, 6 * nodes)
                found = latencies(policy, nodes=nodes, clients=clients, load=0.8, requests=count)
                p50, p99 = (percentile(found, share) * 1e3 for share in (0.5, 0.99))
                rows.append([nodes, clients, policy, f"{p50:.1f} ms", f"{p99:.1f} ms"])
                kind = "own" if policy == OWN else ""
                bars.append(Bar(policy, p99, f"{p99:.1f} ms", kind))
            panels.append(Panel(f"{nodes:,} nodes, {clients:,} clients", bars))
    subtitle = "p99 of the latency at 80 % of the capacity; shorter is better"
    chart = Chart("Which node gets a request", subtitle, panels)
    text = "## Which node gets a request\n\nAt 80 % of the capacity of all nodes.\n\n"
    text += "![p99 by policy, nodes and clients](images/fleets-balancing.svg)\n\n"
    return chart, text + table(["nodes", "clients", "policy", "p50", "p99"], rows) + "\n"


def _losing() -> Iterator[str]:
    yield LOSING
    rows = []
    for nodes in (3, 10, 30):
        for state, name in (("closed", "its port is closed"), ("hangs", "it hangs")):
            _told(f"{nodes} nodes, one is lost: {name}")
            seen = lose_a_node(state, nodes=nodes, clients=8, load=0.6)
            rows.append([nodes, name, *_figures(seen)])
    yield table(["nodes", "the lost one", "requests", "failed", "last failure after", "p99"], rows)
    yield "\n"


def _figures(seen: Loss) -> list[object]:
    failed = sum(count for status, count in seen.statuses.items() if status != 200)
    last = f"{max(seen.failed_s) - 2.0:.1f} s" if seen.failed_s else "-"
    p99 = f"{percentile(seen.latencies, 0.99) * 1e3:.1f} ms"
    return [sum(seen.statuses.values()), failed, last, p99]


def _rolling() -> Iterator[str]:
    yield ROLLING
    rows = []
    for nodes, at_once in ((4, 1), (10, 1), (10, 3)):
        for load in (0.6, 0.8):
            _told(f"{nodes} nodes, {at_once} replaced at a time, load {load}")
            seen, seconds = roll(nodes=nodes, at_once=at_once, clients=8, load=load)
            left = load * nodes / (nodes - at_once)
            other = sum(count for status, count in seen.statuses.items() if status != 200)
            p99 = percentile(seen.latencies, 0.99) * 1e3
            rows.append(
                [
                    nodes,
                    at_once,
                    f"{load:.0%}",
                    f"{left:.0%}",
                    f"{seconds:.0f} s",
                    other,
                    f"{p99:.1f} ms",
                ]
            )
    names = ["nodes", "at a time", "load", "load of the others", "takes", "failed", "p99"]
    yield table(names, rows) + "\n"


SCALERS: Final = {
    "as a HorizontalPodAutoscaler, 30 s to start": Scaler(),
    "2 minutes to start": Scaler(cold_s=120),
    "10 s to start": Scaler(cold_s=10),
    "figures of 5 s, each 5 s": Scaler(period_s=5, lag_s=5),
    "any number at once": Scaler(most_at_once=100),
    "all three": Scaler(cold_s=10, period_s=5, lag_s=5, most_at_once=100),
    "aims at 35 % (twice the nodes)": Scaler(target=0.35),
}


def _growing() -> Iterator[str]:
    yield GROWING
    rows = []
    for factor in (10.0, 2.0):
        for name, scaler in SCALERS.items():
            found = grow(scaler, factor=factor, load=min(scaler.target, 0.5))
            figures = f"{found.until_s:.0f} s", f"{found.refused:.1%}"
            wait = f"{found.longest_wait_s:.2f} s"
            rows.append([f"x {factor:g}", name, *figures, wait, found.nodes])
    names = ["load", "autoscaler", "until all is well", "refused", "longest wait", "nodes then"]
    yield table(names, rows)


if __name__ == "__main__":
    sys.exit(main())
