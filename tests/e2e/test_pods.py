# SPDX-License-Identifier: Apache-2.0
"""What a platform asks of a pod: settings by variables alone, readiness, and an end in time."""

import json
import os
import threading
from time import monotonic

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.pods import USER, Pod, needs_pods

pytestmark = [pytest.mark.e2e, pytest.mark.slow, needs_pods]
GRACE_S = 20.0
SERVICE = """
import getpass
import os
import pathlib
import time

from servekit import Service


class Slow(Service):
    def load(self, context):
        self._scale, self._pause_s = context.options.get("scale", 1), 0
        {load}

    def predict(self, batch: list[float]) -> list[float]:
        time.sleep(self._pause_s)
        return [value * self._scale for value in batch]
"""
#: a loop that lets no signal through to Python
STUCK = "import re; re.match(r'(a+)+$', 'a' * 60 + 'b')"


@pytest.fixture
def mounted(tmp_path):
    """Return what writes a model whose ``load`` runs a line of code, for ``/mnt/models``."""

    def write(load):
        place = tmp_path / "models"
        place.mkdir()
        (place / "model.toml").write_text('service = "service:Slow"\n')
        (place / "service.py").write_text(SERVICE.format(load=load))
        return place

    return write


def metric(text, name, **labels):
    """Return the value of a sample on the page *text*."""
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                return sample.value
    return None


def is_running(pod):
    return metric(pod.ask("/metrics")[1].decode(), "servekit_tasks_running", model="slow") == 1


def test_variables_alone_configure_a_server(mounted):
    variables = {
        "SERVEKIT_MODELS": "double=/mnt/models",
        "SERVEKIT_SET": "double.options.scale=2 double.replicas=2",
        "SERVEKIT_PLUGIN_OIP_GRPC": "127.0.0.1:0",
        "SERVEKIT_MAX_BODY": "1KiB",
    }
    with Pod(mounted("pass"), "start", **variables) as pod:
        pod.ready()
        doubled = pod.ask("/double/predict", b"21")
        too_large = pod.ask("/double/predict", b" " * 2000 + b"1")[0]
        metrics = pod.ask("/metrics")[1].decode()

    assert json.loads(doubled[1]) == {"prediction": 42}
    assert too_large == 413
    assert metric(metrics, "servekit_replicas", model="double", state="serving") == 2


@pytest.mark.parametrize("home", [{}, {"HOME": "/"}], ids=["without HOME", "HOME=/"])
def test_services_find_a_home_and_a_name(mounted, home):
    load = (
        "(pathlib.Path.home() / 'file').write_text('');"
        " print('loaded by', getpass.getuser(), os.getuid())"
    )
    with Pod(mounted(load), "start", "home=/mnt/models", **home) as pod:
        pod.ready()

        assert f"loaded by {USER} {USER}" in pod.output


def test_a_pod_is_alive_and_not_ready_while_a_model_loads(mounted):
    """The file of the test ends the load: it is another process's, and the server sees it."""
    place = mounted("deadline = time.monotonic() + 60\n"
                    "        while not os.path.exists('/mnt/models/go'):\n"
                    "            assert time.monotonic() < deadline\n"
                    "            time.sleep(0.05)")  # fmt: skip
    probes = {
        "/ping/live": 200,
        "/v2/health/live": 200,
        "/ping": 503,
        "/v2/health/ready": 503,
        "/v2/models/slow/ready": 503,
    }
    with Pod(place, "start", "slow=/mnt/models") as pod:
        pod.listening()
        during = {path: pod.ask(path)[0] for path in probes}
        refused = pod.ask("/slow/predict", b"1")[0]
        (place / "go").touch()
        pod.ready()
        after = {path: pod.ask(path)[0] for path in probes}

    assert during == probes
    assert refused == 503
    assert after == dict.fromkeys(probes, 200)


@pytest.mark.parametrize("load", ["time.sleep(600)", STUCK], ids=["it waits", "it computes"])
def test_a_pod_that_is_stopped_while_a_model_loads_ends_within_the_grace(mounted, load):
    place = mounted(f"print('loading now'); {load}")
    with Pod(place, "start", "slow=/mnt/models", SERVEKIT_GRACE=str(GRACE_S)) as pod:
        pod.wait_for("loading now")
        before = monotonic()
        status = pod.stop()

    assert status == 0
    assert monotonic() - before < GRACE_S


def test_a_pod_that_is_stopped_while_a_model_is_fetched_ends_within_the_grace(tmp_path):
    """Nobody writes into the pipe, so opening it takes for ever."""
    pytest.importorskip("servekit_fsspec")
    place = tmp_path / "models"
    place.mkdir()
    os.mkfifo(place / "slow.mar")
    source = "slow=file:///mnt/models/slow.mar"
    with Pod(place, "start", source, SERVEKIT_GRACE=str(GRACE_S)) as pod:
        pod.listening()
        probed = pod.ask("/ping/live")[0], pod.ask("/ping")[0]
        before = monotonic()
        status = pod.stop()

    assert (probed, status) == ((200, 503), 0)
    assert monotonic() - before < GRACE_S


def test_a_pod_that_is_stopped_answers_what_has_reached_it(mounted):
    place = mounted("self._pause_s = 2")
    with Pod(place, "start", "slow=/mnt/models", SERVEKIT_DRAIN_DELAY="1") as pod:
        pod.ready()
        found = []
        client = threading.Thread(target=lambda: found.append(pod.ask("/slow/predict", b"3")))
        client.start()
        pod.wait_until(lambda: is_running(pod), "no request is running")
        status = pod.stop()
        client.join(30)

    assert (status, found) == (0, [(200, b'{"prediction":3.0}')])


def test_models_of_a_read_only_directory_are_loaded_by_name(mounted, tmp_path):
    place = mounted("pass")
    (tmp_path / "store").mkdir()
    place.rename(tmp_path / "store/one")
    variables = {
        "SERVEKIT_MODEL_STORE": "/mnt/models",
        "SERVEKIT_PLUGIN_OIP_OPEN_REPOSITORY": "true",
    }
    with Pod(tmp_path / "store", "start", **variables) as pod:
        pod.ready()
        steps = [
            pod.ask(f"/v2/repository/models/one/{verb}", b"{}")[0] for verb in ("load", "unload")
        ]
        gone = pod.ask("/one/predict", b"1")[0]
        steps.append(pod.ask("/v2/repository/models/one/load", b"{}")[0])
        answer = pod.ask("/one/predict", b"1")[0]

    assert (steps, gone, answer) == ([200] * 3, 404, 200)
