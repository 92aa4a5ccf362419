# SPDX-License-Identifier: Apache-2.0
"""``docs/fleets.md``: its beginning, and what its sections consist of."""

import sys
from dataclasses import dataclass
from typing import Final

from tests.benchmarks.svg import Chart
from tests.scale.table import table
from tests.simulation.fleet import Costs

__all__ = ["Section", "introduction", "tell"]

HEAD: Final = """\
# Many nodes

Written by `python -m tests.simulation --publish`: nodes of servekit and their clients, simulated.
[Beyond one machine](scaling.md#beyond-one-machine) draws the conclusions.

A simulated node has one worker, which takes the waiting requests when it is idle: up to
{max_batch} inputs at once. {queue} requests can wait. That is a capacity of {capacity:,.0f}
requests per second. Arrivals are random (Poisson); the seed is fixed, so every figure can be had
again.

## Costs of one node

Measured by `python -m tests.simulation --measure` on {machine}. The model is an
encoder of 6 layers, 384 wide, for 16 tokens, in PyTorch on one core.

"""


@dataclass(frozen=True)
class Section:
    """A part of the page with its picture."""

    name: str  #: of the picture's file
    chart: Chart
    text: str
    alt: str
    names: list[str]
    rows: list[list[object]]

    @property
    def page(self) -> str:
        """The section as Markdown."""
        head = f"## {self.chart.title}\n\n{self.text}"
        return f"{head}![{self.alt}](images/{self.name}.svg)\n\n{table(self.names, self.rows)}\n"


def introduction(costs: Costs) -> str:
    """Return the beginning of the page, with what was measured."""
    rows: list[list[object]] = [
        ["`predict`, each call", f"{costs.batch_s * 1e3:.2f} ms", "the line through its time"],
        ["`predict`, each input", f"{costs.input_s * 1e3:.2f} ms", "with 1, 2, 4, 8, 16 inputs"],
        [
            "a request besides",
            f"{costs.network_s * 1e3:.2f} ms",
            "a call with servekit-client over loopback to a model that does nothing",
        ],
        ["a closed port", f"{costs.refused_s * 1e3:.2f} ms", "a refused connection over loopback"],
        [
            "start of a server",
            f"{costs.start_s:.1f} s",
            "from `servekit start` to the first response, PyTorch in the page cache",
        ],
    ]
    head = HEAD.format(
        max_batch=costs.max_batch,
        queue=costs.queue,
        capacity=costs.capacity,
        machine=costs.machine,
    )
    return head + table(["cost", "value", "measured as"], rows) + "\n"


def tell(text: str) -> None:
    """Tell people how far it is."""
    sys.stderr.write(f"simulation: {text}\n")
