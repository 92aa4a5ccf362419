# SPDX-License-Identifier: Apache-2.0
"""The moments of an open loop."""

from itertools import pairwise

import numpy as np
import pytest
from servekit_bench.load import OpenLoop
from servekit_bench.load.loops import arrivals


def test_arrivals_of_processes_do_not_overlap():
    load = OpenLoop(10, "constant")
    first, second = (arrivals(load, 5.0, number, 2) for number in (0, 1))

    assert [next(first), next(second), next(first)] == pytest.approx([5.0, 5.1, 5.2])


def test_poisson_arrivals_have_the_rate_and_spread_of_one():
    moments = arrivals(OpenLoop(100, "poisson"), 0.0, 0, 1)
    gaps = [b - a for a, b in pairwise(next(moments) for _ in range(10_000))]

    assert np.mean(gaps) == pytest.approx(0.01, rel=0.05)
    assert np.std(gaps) == pytest.approx(0.01, rel=0.05)
