# SPDX-License-Identifier: Apache-2.0
"""The cluster of these tests reads manifests as Kubernetes does."""

import pytest

from .manifests import Mount, Probe, Rollout, disruptions, pod_template, quantity, rollout

CONTAINER = {
    "name": "c",
    "image": "digits:1",
    "ports": [{"name": "http", "containerPort": 8080}],
    "livenessProbe": {"httpGet": {"path": "/ping/live", "port": "http"}, "timeoutSeconds": 5},
    "resources": {"limits": {"memory": "512Mi"}},
    "securityContext": {"runAsUser": 7, "readOnlyRootFilesystem": True},
    "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
}
POD = {
    "containers": [CONTAINER],
    "securityContext": {"runAsUser": 5, "runAsGroup": 6},
    "volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}],
}


def a_deployment(pod=POD, **spec):
    return {"spec": {"template": {"metadata": {"labels": {}}, "spec": pod}, **spec}}


def test_a_pod_is_read_with_the_defaults_of_the_api():
    pod = pod_template(a_deployment())

    assert (pod.uid, pod.gid, pod.is_read_only, pod.grace_s) == (7, 6, True, 30)
    assert pod.probes == {"liveness": Probe(path="/ping/live", port=8080, timeout_s=5)}
    assert pod.mounts == (Mount(path="/tmp", in_memory=True, limit_bytes=2**20),)
    assert pod.memory_bytes == 512 * 2**20


@pytest.mark.parametrize(
    ("text", "number"), [("512Mi", 2**29), ("1Gi", 2**30), ("500m", 0.5), ("2", 2), (3, 3)]
)
def test_quantities(text, number):
    assert quantity(text) == number


@pytest.mark.parametrize(
    ("replicas", "strategy", "expected"),
    [
        pytest.param(1, {}, (1, 0), id="one pod is replaced by a second one"),
        pytest.param(4, {}, (1, 1), id="a quarter"),
        pytest.param(3, {"maxSurge": 2, "maxUnavailable": 0}, (2, 0), id="numbers"),
        pytest.param(3, {"maxSurge": "50%", "maxUnavailable": "50%"}, (2, 1), id="rounded"),
    ],
)
def test_a_strategy_counts_pods(replicas, strategy, expected):
    deployment = a_deployment(replicas=replicas, strategy={"rollingUpdate": strategy})
    surge, unavailable = expected

    assert rollout(deployment) == Rollout(replicas=replicas, surge=surge, unavailable=unavailable)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [({"maxUnavailable": 1}, 1), ({"minAvailable": 2}, 1), ({"minAvailable": "50%"}, 1)],
)
def test_a_budget_allows_disruptions(spec, expected):
    assert disruptions({"spec": spec}, 3) == expected


def test_what_it_does_not_do_is_no_pod():
    with pytest.raises(AssertionError, match="initContainers"):
        pod_template(a_deployment({**POD, "initContainers": []}))
