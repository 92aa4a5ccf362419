# SPDX-License-Identifier: Apache-2.0
"""The rendered HPA under a steady load, and under a tenfold step: played in memory.

A pod has one worker, which answers 10 requests a second. How long requests wait is that of a queue
with random arrivals and equal service times, and what a pod cannot answer piles up.
"""

import math

import pytest
from servekit_kubernetes.scaling import autoscaler
from servekit_kubernetes.values import Values

from .samples import PLAN, plan

RATE = 10.0  #: requests per second of a pod
STEP_S = 15
START_S = 45  #: until a new pod serves
TOLERANCE = 0.1  #: of the HPA
HPA = autoscaler(Values.of(plan(scaling=type(PLAN.scaling)(1, 40))))["spec"]
DOWN = HPA["behavior"]["scaleDown"]
TARGETS = [float(each["pods"]["target"]["averageValue"]) for each in HPA["metrics"]]


class Played:
    """A Deployment under load."""

    def __init__(self, targets, pods):
        self.targets, self.pods = targets, pods
        self.waits, self.counts = [], []
        self._starting, self._backlog, self._wanted = [], 0.0, []

    def step(self, load):
        """Pass 15 s with *load* requests per second."""
        self._starting = [left - STEP_S for left in self._starting]
        self.pods += sum(left <= 0 for left in self._starting)
        self._starting = [left for left in self._starting if left > 0]
        busy = min(load / (RATE * self.pods), 1.0)
        self._backlog = max(0.0, self._backlog + (load - RATE * self.pods) * STEP_S)
        random_wait = busy / (2 * RATE * (1.01 - busy))
        wait = random_wait + self._backlog / (RATE * self.pods)
        self._scale([wait, min(busy / 0.7, 1.0)])
        self.waits.append(wait)
        self.counts.append(self.pods)

    def _scale(self, values):
        """Decide as the controller of an HPA does."""
        ratios = [value / target for value, target in zip(values, self.targets, strict=False)]
        wanted = max(
            self.pods if abs(ratio - 1) <= TOLERANCE else math.ceil(self.pods * ratio)
            for ratio in ratios
        )
        self._wanted.append(min(max(wanted, HPA["minReplicas"]), HPA["maxReplicas"]))
        window = DOWN["stabilizationWindowSeconds"] // STEP_S
        now, all_pods = len(self._wanted), self.pods + len(self._starting)
        if self._wanted[-1] > all_pods and now % 4 == 0:  # a period of 60 s
            more = min(self._wanted[-1], max(2 * all_pods, all_pods + 2)) - all_pods
            self._starting += [START_S] * more
        elif max(self._wanted[-window:]) < all_pods and now % 4 == 0 and now >= window:
            self.pods -= DOWN["policies"][0]["value"]

    def changes(self, since):
        """Return how often the number of pods changed."""
        pairs = zip(self.counts[since:], self.counts[since + 1 :], strict=False)
        return sum(before != after for before, after in pairs)


@pytest.mark.parametrize("load", [5.0, 21.0, 55.0, 130.0])
def test_pods_stay_under_a_steady_load(load):
    played = Played(TARGETS, math.ceil(load / RATE) + 3)
    for _ in range(960):  # 4 hours
        played.step(load)

    assert played.changes(since=480) == 0
    assert max(played.waits[480:]) <= TARGETS[0] * (1 + TOLERANCE)
    assert played.counts[-1] <= math.ceil(load / RATE / 0.6)


def test_with_the_time_in_queue_alone_they_would_swing():
    played = Played(TARGETS[:1], 6)
    for _ in range(960):
        played.step(21.0)

    assert played.changes(since=480) > 8
    assert max(played.waits[480:]) > 10 * TARGETS[0]


def test_a_tenfold_step_is_followed():
    played = Played(TARGETS, 3)
    for number in range(240):
        played.step(12.0 if number < 80 else 120.0)

    assert played.counts[79] == 2
    assert played.counts[80 + 24] >= 13  # 6 minutes later
    assert played.waits[-1] < TARGETS[0]
