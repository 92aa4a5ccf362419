# SPDX-License-Identifier: Apache-2.0
"""The queries that pods are scaled on, as Prometheus evaluates them."""

import json
import shutil
import subprocess

import pytest
from servekit_kubernetes.scaling import BUSY, QUEUE_TIME

QUEUED = "servekit_queue_duration_seconds"
PREDICTED = "servekit_predict_duration_seconds"


def played(value, per_step):
    """Return two minutes of a series, a value each 15 s."""
    return f"{value}+{per_step}x8"


def series(model="a", pod="p", *, waited=0.0, batches=0, waiting=0, predicted=0.0, serving=1):
    """Return the series of a model; rates are per second."""
    labels = f'model="{model}",pod="{pod}",namespace="default"'
    return {
        f"{QUEUED}_sum{{{labels}}}": played(0, waited * batches * 15),
        f"{QUEUED}_count{{{labels}}}": played(0, batches * 15),
        f"servekit_tasks_waiting{{{labels}}}": played(waiting, 0),
        f"{PREDICTED}_sum{{{labels}}}": played(0, predicted * 15),
        f'servekit_replicas{{{labels},state="serving"}}': played(serving, 0),
        f'servekit_replicas{{{labels},state="failed"}}': played(3, 0),
    }


@pytest.fixture
def evaluated(tmp_path):
    """Return ``evaluated(signal, series, expected)``, which fails unless pods have these values."""
    promtool = shutil.which("promtool")
    if not promtool:
        pytest.skip("no promtool")

    def run(signal, inputs, expected):
        query = signal.query('namespace="default"', "pod")
        samples = [
            {"labels": f'{{pod="{pod}"}}', "value": value} for pod, value in expected.items()
        ]
        test = {
            "interval": "15s",
            "input_series": [{"series": name, "values": text} for name, text in inputs.items()],
            "promql_expr_test": [{"expr": query, "eval_time": "2m", "exp_samples": samples}],
        }
        (tmp_path / "test.yml").write_text(json.dumps({"tests": [test]}))
        done = subprocess.run(
            [promtool, "test", "rules", tmp_path / "test.yml"],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    return run


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(series(), {"p": 0}, id="without requests nobody waits"),
        pytest.param(series(waited=0.5, batches=4), {"p": 0.5}, id="average of the batches"),
        pytest.param(
            series(waited=0.5, batches=4, waiting=9), {"p": 0.5}, id="waiting ones count later"
        ),
        pytest.param(series(waiting=9), {"p": 9}, id="no batch leaves: those that wait"),
        pytest.param(
            series("a", waited=0.25, batches=100) | series("b", waited=2, batches=1),
            {"p": 2},
            id="the model that waits longest",
        ),
        pytest.param(
            series(waited=0.25, batches=8) | series(pod="q", waiting=3),
            {"p": 0.25, "q": 3},
            id="each pod",
        ),
    ],
)
def test_the_time_in_queue(evaluated, found, expected):
    evaluated(QUEUE_TIME, found, expected)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(series(), {"p": 0}, id="idle"),
        pytest.param(series(predicted=0.35), {"p": 0.5}, id="half of what a worker may do"),
        pytest.param(series(predicted=1), {"p": 1}, id="never more than a pod"),
        pytest.param(series(predicted=0.7, serving=2), {"p": 0.5}, id="two workers share it"),
        pytest.param(series(predicted=0.7, serving=0), {}, id="no worker serves"),
        pytest.param(
            series("a", predicted=0.07) | series("b", predicted=0.35),
            {"p": 0.5},
            id="busiest model",
        ),
    ],
)
def test_how_busy_a_pod_is(evaluated, found, expected):
    evaluated(BUSY, found, expected)
