# SPDX-License-Identifier: Apache-2.0
"""The chart, installed by Helm, is what Kustomize builds."""

import pytest
from servekit_kubernetes.helm import helm_files
from servekit_kubernetes.kustomize import kustomize_files

from .helm_release import applied, install, lint
from .kustomization import build
from .samples import DASHBOARDS, PLAN, plan, write

pytestmark = pytest.mark.slow
INFO = 1  #: below a warning


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("chart")
    return write(place, kustomize_files(PLAN, DASHBOARDS) | helm_files(PLAN, DASHBOARDS))


@pytest.fixture
def installed(place, tmp_path):
    """Return ``installed(values)``: what Helm creates."""
    return lambda values: install(place / "chart", "digits", "models", values, tmp_path)


def test_the_chart_is_the_base_of_kustomize(place, installed):
    assert installed({}) == build(place / "base")


def test_a_chart_whose_pods_fetch_assets_and_speak_grpc_is_the_base_too(tmp_path):
    another = plan(
        fetches_at_start=True,
        memory_mib=None,
        gpus=1,
        env={"SERVEKIT_PLUGIN_OIP_GRPC": "0.0.0.0:9000", "SERVEKIT_LOAD_TIMEOUT": "61.5"},
    )
    write(tmp_path, kustomize_files(another, DASHBOARDS) | helm_files(another, DASHBOARDS))
    none = {"volumes": None, "volumeMounts": None, "monitoringLabels": None}
    found = install(tmp_path / "chart", "digits", "models", none, tmp_path)

    assert found == build(tmp_path / "base")


@pytest.mark.parametrize("mode", ["hpa", "keda"])
def test_the_chart_with_an_autoscaler_is_the_overlay_of_kustomize(place, installed, mode):
    found = installed({"autoscaling": {"mode": mode}})

    assert found == build(place / "overlays" / mode)


@pytest.mark.parametrize(
    ("values", "is_monitored"),
    [
        ({}, False),
        ({"metrics": True}, True),
        ({"metrics": False, "autoscaling": {"mode": "hpa"}}, False),
    ],
)
def test_the_values_can_say_whether_there_is_a_monitor(installed, values, is_monitored):
    assert (("ServiceMonitor", "digits") in installed(values)) == is_monitored


def test_the_chart_has_the_rules_and_dashboards_of_kustomize(place, installed):
    found = installed({"dashboards": True})
    expected = build(place / "monitoring")
    for each in expected.values():
        each["metadata"]["namespace"] = "models"
        each["metadata"].setdefault("labels", {})

    assert {key: found[key] for key in expected} == expected


def test_values_change_what_they_name(installed):
    found = installed({
        "image": "other:2", "replicas": 5, "env": {"SERVEKIT_QUEUE": 7},
        "resources": {"limits": {"memory": "1Gi"}}, "nodeSelector": {"disk": "ssd"},
        "envFrom": [{"secretRef": {"name": "tokens"}}], "podSecurityContext": {"runAsUser": None},
        "imagePullSecrets": [{"name": "key"}], "podAnnotations": {"a": "1"},
        "volumes": [{"name": "tokens", "secret": {"secretName": "tokens"}}],
        "volumeMounts": [{"name": "tokens", "mountPath": "/tokens"}], "serviceAccountName": "s3",
    })["Deployment", "digits"]["spec"]  # fmt: skip
    pod = found["template"]["spec"]
    container = pod["containers"][0]

    assert (found["replicas"], container["image"]) == (5, "other:2")
    assert {"name": "SERVEKIT_QUEUE", "value": "7"} in container["env"]
    assert {"name": "SERVEKIT_DRAIN_DELAY", "value": "5"} in container["env"]
    assert container["resources"]["limits"] == {"memory": "1Gi"}
    assert (pod["nodeSelector"], pod["imagePullSecrets"]) == ({"disk": "ssd"}, [{"name": "key"}])
    assert [each["name"] for each in pod["volumes"]] == ["tmp", "tokens"]
    assert [each["mountPath"] for each in container["volumeMounts"]] == ["/tmp", "/tokens"]
    assert found["template"]["metadata"]["annotations"] == {"a": "1"}
    assert pod["serviceAccountName"] == "s3"
    assert container["envFrom"] == [{"secretRef": {"name": "tokens"}}]
    assert "runAsUser" not in pod["securityContext"]
    assert pod["securityContext"]["runAsNonRoot"]


def test_monitors_and_rules_get_the_labels_that_prometheus_selects_by(installed):
    labels = {"release": "kube-prometheus-stack"}
    found = installed({"monitoringLabels": labels, "metrics": True, "dashboards": True})
    monitor = found["ServiceMonitor", "digits"]["metadata"]["labels"]

    assert labels.items() <= monitor.items()
    assert monitor["app.kubernetes.io/version"] == "1.0"
    assert found["PrometheusRule", "servekit"]["metadata"]["labels"] == labels


@pytest.mark.parametrize(
    ("env", "stop_s", "load_s"),
    [
        ({}, 5 + 30 + 5, 120),
        ({"SERVEKIT_GRACE": "120.5", "SERVEKIT_LOAD_TIMEOUT": 1800}, 5 + 121 + 5, 1800),
        ({"SERVEKIT_DRAIN_DELAY": "0", "SERVEKIT_LOAD_TIMEOUT": "0"}, 30 + 5, 120),
    ],
)
def test_times_follow_the_variables(installed, env, stop_s, load_s):
    spec = installed({"env": env})["Deployment", "digits"]["spec"]
    pod = spec["template"]["spec"]
    startup_s = 5 * pod["containers"][0]["startupProbe"]["failureThreshold"]

    assert pod["terminationGracePeriodSeconds"] == stop_s
    assert startup_s == load_s + 30
    assert spec["progressDeadlineSeconds"] == startup_s + 600


def test_given_times_win_and_large_numbers_stay_whole(installed):
    values = {"terminationGracePeriodSeconds": 99, "startupFailures": 7}
    found = installed(values | {"env": {"SERVEKIT_ARENA": 268435456.0}})
    pod = found["Deployment", "digits"]["spec"]["template"]["spec"]
    container = pod["containers"][0]

    assert pod["terminationGracePeriodSeconds"] == 99
    assert container["startupProbe"]["failureThreshold"] == 7
    assert {"name": "SERVEKIT_ARENA", "value": "268435456"} in container["env"]


def test_names_of_a_release_stay_texts(place, tmp_path):
    found = install(place / "chart", "n", "1e3", {"autoscaling": {"mode": "hpa"}}, tmp_path)

    assert {each["metadata"]["namespace"] for each in found.values()} == {"1e3"}
    assert ("HorizontalPodAutoscaler", "n") in found


@pytest.mark.parametrize(("mode", "replicas"), [("off", 3), ("hpa", 7), ("keda", 7)])
def test_with_an_autoscaler_the_pods_stay_that_there_are(place, tmp_path, mode, replicas):
    live = build(place / "base")["Deployment", "digits"]
    live["spec"]["replicas"] = 7
    values = {"autoscaling": {"mode": mode}}
    found = applied(place / "chart", "digits", "models", values, live, tmp_path)

    assert found["spec"]["replicas"] == replicas


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"env": {"SERVEKIT_PORT": "9000"}}, "env.SERVEKIT_PORT: the probes"),
        ({"replica": 3}, "replica"),
        ({"autoscaling": {"mode": "on"}}, "mode"),
    ],
)
def test_misspelled_values_and_contradictions_are_refused(installed, values, complaint):
    helm = pytest.importorskip("helm_sdkpy", reason="no Helm: pip install helm-sdkpy")

    with pytest.raises(helm.InstallError, match=complaint):
        installed(values)


def test_helm_finds_nothing_to_complain_about(place, tmp_path):
    found = lint(place / "chart", tmp_path)

    assert found["Errors"] is None
    assert {each["Severity"] for each in found["Messages"]} <= {INFO}  # it would like an icon
