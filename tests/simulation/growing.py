# SPDX-License-Identifier: Apache-2.0
"""An autoscaler meets ten times the load: how long requests are refused, and what helps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.simulation.fleet import Costs

__all__ = ["Growth", "Scaler", "grow"]

STEP_S: Final = 0.1
STEP_AT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Scaler:
    """How nodes are added; the defaults are those of a HorizontalPodAutoscaler."""

    target: float = 0.7  #: part of the capacity that it aims at
    period_s: float = 15.0  #: between two decisions
    lag_s: float = 15.0  #: age of the figures that it sees
    most_at_once: float = 2.0  #: times the nodes that there are (100 % each period), or 4 nodes
    cold_s: float = 30.0  #: from the decision to the first response of a node


@dataclass(frozen=True, slots=True)
class Growth:
    """What became of a step in the load."""

    refused: float  #: part of the requests of the next ten minutes
    until_s: float  #: from the step until no request is refused, and none waits above 0.1 s
    nodes: int  #: at the end
    longest_wait_s: float


def grow(scaler: Scaler, *, nodes: int = 10, factor: float = 10.0, load: float = 0.5) -> Growth:
    """Return what happens if the load of *nodes* grows at once to *factor* times as much.

    Requests are a fluid here: at these numbers chance plays no part.

    :param load: part of the capacity before the step.
    """
    costs = Costs()
    rate = load * costs.capacity * nodes
    ready, starting, queue = float(nodes), list[tuple[float, int]](), 0.0
    history: list[tuple[float, float]] = []
    offered = refused = longest = 0.0
    settled = STEP_AT_S
    time, decide_at = 0.0, 0.0
    while time < STEP_AT_S + 600:
        now_rate = rate * (factor if time >= STEP_AT_S else 1.0)
        ready += sum(added for at, added in starting if at <= time)
        starting = [each for each in starting if each[0] > time]
        room = costs.queue * ready
        arrived, served = now_rate * STEP_S, ready * costs.capacity * STEP_S
        queue = max(0.0, queue + arrived - served)
        lost = max(0.0, queue - room)
        queue -= lost
        if time >= STEP_AT_S:
            offered, refused = offered + arrived, refused + lost
            wait_s = queue / (ready * costs.capacity)
            longest = max(longest, wait_s)
            if lost or wait_s > 0.1:
                settled = time
        # what waits is demand too: it should be answered within a period
        history.append((time, now_rate + queue / scaler.period_s))
        if time >= decide_at:
            decide_at = time + scaler.period_s
            seen = _seen(history, time - scaler.lag_s)
            present = ready + sum(added for _, added in starting)
            wanted = min(
                seen / (costs.capacity * scaler.target),
                max(present * scaler.most_at_once, present + 4),
            )
            if (added := int(wanted - present + 0.999)) > 0:
                starting.append((time + scaler.cold_s, added))
        time += STEP_S
    return Growth(refused / offered, settled - STEP_AT_S, int(ready), longest)


def _seen(history: list[tuple[float, float]], until: float) -> float:
    """Return the demand that figures up to *until* show: the mean of the last 15 s."""
    last = [rate for time, rate in history[-600:] if until - 15 <= time <= until]
    return sum(last) / len(last) if last else 0.0
