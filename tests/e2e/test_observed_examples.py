# SPDX-License-Identifier: Apache-2.0
"""Examples whose point is beside their answers: metrics of a service, devices of replicas."""

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

import pytest

from servekit.testing import ServedModel

EXAMPLES = Path(__file__).parents[2] / "examples"
WAIT_S = 100.0
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture
def serve():
    """Serve an example."""
    started = []

    def start(name):
        started.append(ServedModel(EXAMPLES / name))
        return started[-1].wait_ready()

    yield start
    for served in started:
        served.stop()


def test_custom_metrics_count_what_the_model_saw(serve):
    served = serve("custom-metrics")
    watch = EXAMPLES / "custom-metrics" / "watch.py"
    done = subprocess.run(
        [sys.executable, watch, served.url],
        capture_output=True, text=True, timeout=WAIT_S, check=False,
    )  # fmt: skip
    text = served.get("/metrics").body.decode()
    series = re.findall(r'servekit_model_species_total\{.*?species="(\w+)".*?\} (\S+)', text)

    assert done.returncode == 0, done.stderr
    drawn = [int(line.split()[4]) for line in done.stdout.splitlines()]
    assert sum(drawn) == sum(float(count) for _, count in series) == 151  # an example among them
    assert float(dict(series)["setosa"]) == 51  # which no other species is near
    assert "servekit_model_farthest_cm{" in text


def test_each_replica_has_a_device(serve):
    served = serve("per-replica-env")
    seen, deadline = set(), monotonic() + WAIT_S
    while len(seen) < 2:
        assert monotonic() < deadline, f"one replica answered all: {seen}"
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(served.predict, [300] * 16))
        seen |= {(each.prediction["replica"], each.prediction["device"]) for each in answers}

    assert seen == {(0, "0"), (1, "1")}
