# SPDX-License-Identifier: Apache-2.0
"""``servekit tune`` finds what is planted in real servers."""

import json
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from time import monotonic

import pytest

MODEL = """
name = "planted"
service = "service:Planted"

[batching]
max_batch_size = {batch}

[[examples]]
input = "one"
"""
SERVICE = """
import time
from servekit import Service

class Planted(Service):
    def load(self, context):
        self.threads = context.threads

    def predict(self, batch):
        size, threads = len(batch), self.threads
{predict}
        return batch
"""
LINE = "        time.sleep(0.02 + 0.002 * size)"
WALL = "        if size > 24: raise MemoryError\n" + LINE
TRAP = "        time.sleep((0.02 + 0.002 * size) * threads**2)"
COMMAND = [Path(sys.executable).parent / "servekit", "tune"]
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture
def planted(tmp_path):
    """Write a model directory whose ``predict`` waits as it is told."""

    def write(predict, batch=2):
        directory = tmp_path / "planted"
        directory.mkdir()
        (directory / "model.toml").write_text(MODEL.format(batch=batch))
        (directory / "service.py").write_text(SERVICE.format(predict=predict))
        return directory

    return write


def tuned(*arguments, status=0):
    """Return the JSON that the command prints."""
    command = [*COMMAND, *map(str, arguments), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)


def own_rate(found):
    return next(each["requests_per_s"] for each in found["measured"] if each["is_archive"])


def test_the_best_batch_below_a_memory_wall(planted, tmp_path):
    model, settings, page = planted(WALL), tmp_path / "servekit.toml", tmp_path / "report.html"
    output = ("--output", settings, "--html", page)
    found = tuned(model, "--p99", "500ms", "--budget", "45s", "--max-replicas", "1", *output)
    curve = found["costs"][0]

    assert 10 <= found["recommended"]["max_batch_size"] <= 24
    assert found["requests_per_s"] > 1.5 * own_rate(found)
    assert curve["base_s"] == pytest.approx(0.02, rel=0.3)
    assert curve["each_s"] == pytest.approx(0.002, rel=0.3)
    assert any("fail (507 Out of memory)" in each for each in found["avoided"])
    assert tomllib.loads(settings.read_text())["models"]["planted"]["replicas"] == 1
    assert "Cost of a batch" in page.read_text()


def test_threads_that_make_it_slower(planted):
    found = tuned(planted(TRAP), "--p99", "1s", "--budget", "45s", "--max-replicas", "1")
    if found["costs"][1:]:  # a machine with one core has no choice
        assert found["recommended"]["threads"] == 1
        assert found["requests_per_s"] > 1.5 * own_rate(found)


def test_a_latency_that_cannot_be_kept_ends_with_the_best_there_is(planted):
    found = tuned(planted(LINE), "--p99", "5ms", "--budget", "60s", "--max-replicas", "1", status=1)

    assert found["is_kept"] is False
    assert "no settings keep a p99 of 5 ms; the best was" in found["verdict"]


def test_a_file_is_not_overwritten(planted, tmp_path):
    settings = tmp_path / "servekit.toml"
    settings.write_text("port = 1\n")
    command = [*COMMAND, planted(LINE), "--p99", "1s", "--output", settings]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 3
    assert "exists; --force overwrites it" in done.stderr
    assert settings.read_text() == "port = 1\n"


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ("[cache]\n", "answers equal requests from its [cache]"),
        ('[stages.a]\nservice = "service:Planted"\n', "has several stages"),
    ],
)
def test_models_that_cannot_be_tuned(planted, table, reason):
    model = planted(LINE)
    with (model / "model.toml").open("a") as file:
        file.write(table)
    command = [*COMMAND, model, "--p99", "1s"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, reason in done.stderr) == (3, True)


def test_ctrl_c_prints_what_is_known(planted):
    command = [*COMMAND, planted(LINE), "--p99", "1s", "--budget", "120s"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        deadline = monotonic() + 60
        while not children_of(process.pid):
            assert monotonic() < deadline, "no server was started"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(20)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=30)

    assert process.returncode == 130
    assert "a batch of n costs" in output
    assert "it was stopped before its end" in output


def children_of(pid):
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
