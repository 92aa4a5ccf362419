# SPDX-License-Identifier: Apache-2.0
"""Single pods: loads that take long, memory that runs out, and what a container may do."""

import http.client
import json
from dataclasses import replace
from time import monotonic

import pytest

from .stage import Stage, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1200)]
LOAD_S = 18.0
TOO_MUCH_MIB = 600  #: more than the limit


def ask(pod, path, body=None):
    """Return status and content of one request."""
    connection = http.client.HTTPConnection(pod.address, pod.template.port, timeout=30)
    try:
        connection.request("GET" if body is None else "POST", path, body,
                           {"Content-Type": "application/json"})  # fmt: skip
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def only_pod(stage):
    """Return the pod of the stage, once it is ready."""
    stage.wait_rolled_out()
    return stage.deployment.pods[0]


def test_a_long_load_is_waited_for(tmp_path, rendered):
    slow = rendered.version("slow", load_s=LOAD_S)
    with Stage(tmp_path, rendered, replicas=1, template=slow) as stage:
        pod = only_pod(stage)

        assert pod.ready_after_s >= LOAD_S
        assert not pod.restarts


def test_a_load_that_exceeds_the_startup_probe_ends_the_container(tmp_path, rendered):
    slow = rendered.version("slower", load_s=10 * LOAD_S)
    probe = replace(slow.probes["startup"], period_s=1.0, failures=3)
    impatient = replace(slow, probes=slow.probes | {"startup": probe})
    with Stage(tmp_path, rendered, replicas=1, template=impatient) as stage:
        wait_until(lambda: stage.deployment.pods, "no pod was made")
        pod = stage.deployment.pods[0]
        wait_until(lambda: pod.restarts, "the container still runs")

        assert pod.restarts == ["startup probe"]
        assert pod.exits == [0]
        assert not pod.is_ready


def test_a_server_that_hangs_is_started_again(tmp_path, rendered):
    probe = replace(rendered.template.probes["liveness"], period_s=1.0, timeout_s=1.0)
    probes = rendered.template.probes | {"liveness": probe}
    template = replace(rendered.template, probes=probes, grace_s=5.0)
    with Stage(tmp_path, rendered, replicas=1, template=template) as stage:
        pod = only_pod(stage)
        pod.container.freeze()
        wait_until(lambda: not pod.is_ready, "it is still ready")
        wait_until(lambda: pod.restarts, "it was not started again")
        wait_until(lambda: pod.is_ready, "it is not ready again")

        assert pod.restarts == ["liveness probe"]


def test_a_worker_that_takes_too_much_memory_dies_alone(tmp_path, rendered):
    with Stage(tmp_path, rendered, replicas=1) as stage:
        pod = only_pod(stage)
        assert pod.template.memory_bytes < TOO_MUCH_MIB * 2**20
        status, body = ask(pod, "/digits/predict", f"-{TOO_MUCH_MIB}")
        wait_until(lambda: "out of memory" in pod.log, "the log does not say why")
        wait_until(lambda: ask(pod, "/ping")[0] == 200, "no worker takes its place")
        after = ask(pod, "/digits/predict", "7")
        metrics = ask(pod, "/metrics")[1].decode()

        assert (status, json.loads(body)["title"]) == (503, "Worker lost")
        assert (after[0], json.loads(after[1])["prediction"]["n"]) == (200, 7)
        assert 'cause="out_of_memory"' in metrics
        assert not pod.restarts


def test_a_container_has_the_rights_of_the_manifest(tmp_path, rendered):
    arbitrary = replace(rendered.template, uid=12345, gid=0)
    with Stage(tmp_path, rendered, replicas=1, template=arbitrary) as stage:
        pod = only_pod(stage)
        status = pod.container.status
        began = monotonic()
        writable = pod.container.writable("/", "/srv", "/opt/servekit", "/var", "/tmp")
        pod.delete()
        pod.join(60)

        assert (status["Uid"].split()[0], status["Gid"].split()[0]) == ("12345", "0")
        assert (status["CapEff"], status["CapBnd"]) == ("0" * 16, "0" * 16)
        assert status["NoNewPrivs"] == "1"
        assert writable == ["/tmp"]
        assert (pod.exits, pod.was_killed) == ([0], False)
        assert monotonic() - began < pod.template.grace_s
