# SPDX-License-Identifier: Apache-2.0
"""An autoscaler meets ten times the load: how long requests are refused, and what helps."""

from dataclasses import dataclass, field
from typing import Final

from tests.benchmarks.svg import Bar, Chart, Panel
from tests.simulation.fleet import Costs
from tests.simulation.page import Section, tell

__all__ = ["Growth", "Scaler", "grow", "section"]

STEP_S: Final = 0.1
STEP_AT_S: Final = 60.0  #: when the load grows
AFTER_S: Final = 600.0
WINDOW_S: Final = 15.0  #: over which a figure is averaged
LONG_WAIT_S: Final = 0.1
TEXT: Final = """\
From half the capacity of the nodes. "Refused" is the share of the ten minutes that follow. A new
node needs the {start_s:.1f} s of a start, and before that time for a place: 30 s for a pod whose
image has to be fetched, two minutes for a machine that has to be ordered. These two are
assumptions: measure yours.

"""


@dataclass(frozen=True, slots=True)
class Scaler:
    """How nodes are added; the defaults are those of a HorizontalPodAutoscaler."""

    target: float = 0.7  #: part of the capacity that it aims at
    period_s: float = 15.0  #: between two decisions
    lag_s: float = 15.0  #: age of the figures that it sees
    most_at_once: float = 2.0  #: times the nodes that there are (100 % each period), or 4 nodes
    place_s: float = 30.0  #: until a node has a machine and the image; its start comes after that


@dataclass(slots=True)
class Growth:
    """What became of a step in the load."""

    offered: float = 0.0  #: requests of the next ten minutes
    lost: float = 0.0  #: that were refused
    until_s: float = 0.0  #: from the step until no request is refused, and none waits above 0.1 s
    longest_wait_s: float = 0.0
    nodes: int = 0  #: at the end

    @property
    def refused(self) -> float:
        """The part of the requests that were refused."""
        return self.lost / self.offered


@dataclass(slots=True)
class Nodes:
    """The nodes and the requests that wait for them, as a fluid."""

    costs: Costs
    ready: float
    starting: list[tuple[float, int]] = field(default_factory=list)  #: until when, how many
    queue: float = 0.0
    demand: list[tuple[float, float]] = field(default_factory=list)  #: when, requests a second

    @property
    def wait_s(self) -> float:
        """How long a request waits."""
        return self.queue / (self.ready * self.costs.capacity)

    def take(self, time: float, arrived: float) -> float:
        """Serve for a step, and return how many requests were refused."""
        self.ready += sum(added for at, added in self.starting if at <= time)
        self.starting = [each for each in self.starting if each[0] > time]
        self.queue = max(0.0, self.queue + arrived - self.ready * self.costs.capacity * STEP_S)
        lost = max(0.0, self.queue - self.costs.queue * self.ready)
        self.queue -= lost
        return lost

    def scale(self, time: float, scaler: Scaler) -> None:
        """Start as many nodes as *scaler* wants by the figures that it sees."""
        until = time - scaler.lag_s
        last = [rate for at, rate in self.demand[-600:] if until - WINDOW_S <= at <= until]
        seen = sum(last) / len(last) if last else 0.0
        present = self.ready + sum(added for _, added in self.starting)
        most = max(present * scaler.most_at_once, present + 4)
        wanted = min(seen / (self.costs.capacity * scaler.target), most)
        if (added := int(wanted - present + 0.999)) > 0:
            self.starting.append((time + scaler.place_s + self.costs.start_s, added))


def grow(
    scaler: Scaler, *, costs: Costs, nodes: int = 10, factor: float = 10.0, load: float = 0.5
) -> Growth:
    """Return what happens if the load of *nodes* grows at once to *factor* times as much.

    Requests are a fluid here: at these numbers chance plays no part.

    :param load: part of the capacity before the step.
    """
    rate = load * costs.capacity * nodes
    fluid, found, decide_at = Nodes(costs, float(nodes)), Growth(), 0.0
    for step in range(int((STEP_AT_S + AFTER_S) / STEP_S)):
        time = step * STEP_S
        has_grown = time >= STEP_AT_S
        arrived = rate * (factor if has_grown else 1.0) * STEP_S
        lost = fluid.take(time, arrived)
        if has_grown:
            found.offered, found.lost = found.offered + arrived, found.lost + lost
            found.longest_wait_s = max(found.longest_wait_s, fluid.wait_s)
            if lost or fluid.wait_s > LONG_WAIT_S:
                found.until_s = time - STEP_AT_S
        # what waits is demand too: it should be answered within a period
        fluid.demand.append((time, arrived / STEP_S + fluid.queue / scaler.period_s))
        if time >= decide_at:
            decide_at = time + scaler.period_s
            fluid.scale(time, scaler)
    found.nodes = int(fluid.ready)
    return found


SCALERS: Final = {
    "as an HPA, 30 s for a place": Scaler(),
    "2 minutes for a place": Scaler(place_s=120),
    "no wait for a place": Scaler(place_s=0),
    "figures of 5 s, each 5 s": Scaler(period_s=5, lag_s=5),
    "any number at once": Scaler(most_at_once=100),
    "all three": Scaler(place_s=0, period_s=5, lag_s=5, most_at_once=100),
    "aims at 35 %": Scaler(target=0.35),
}


def section(costs: Costs) -> Section:
    """Return the section on a step in the load."""
    tell("the load grows")
    rows, panels = list[list[object]](), list[Panel]()
    for nodes, factor in ((10, 10.0), (1000, 10.0), (10, 2.0)):
        bars = []
        for name, scaler in SCALERS.items():
            load = min(scaler.target, 0.5)
            found = grow(scaler, costs=costs, nodes=nodes, factor=factor, load=load)
            wait = f"{found.longest_wait_s:.2f} s"
            refused = f"{found.refused:.1%}"
            settled = f"{found.until_s:.0f} s"
            rows.append([nodes, f"x {factor:g}", name, settled, refused, wait, found.nodes])
            bars.append(Bar(name, found.refused, refused))
        panels.append(Panel(f"{nodes:,} nodes, {factor:g} times the load", bars))
    return Section(
        "fleets-growth",
        Chart("The load grows at once", "refused requests; shorter is better", panels),
        TEXT.format(start_s=costs.start_s),
        "refused requests by autoscaler",
        [
            "nodes",
            "load",
            "autoscaler",
            "until all is well",
            "refused",
            "longest wait",
            "nodes then",
        ],
        rows,
    )
