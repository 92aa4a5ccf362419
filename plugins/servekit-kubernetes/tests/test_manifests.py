# SPDX-License-Identifier: Apache-2.0
"""The manifests keep their schemas, and say what the server does."""

import re
from pathlib import Path

import jsonschema
import pytest
import yaml
from servekit_kubernetes.kustomize import kustomize_files
from servekit_kubernetes.scaling import BUSY, QUEUE_TIME

from servekit.settings import Settings

from .kustomization import build, kubectl
from .samples import DASHBOARDS, PLAN, plan, write
from .schemas import hold, misspelled

DOCS = Path(__file__).parents[3] / "docs"
FILES = kustomize_files(PLAN, DASHBOARDS)
NOT_APPLIED = ("kustomization.yaml", "prometheus-adapter.yaml")
RESOURCES = {
    f"{path} {each['kind']} {each['metadata']['name']}": each
    for path, text in FILES.items()
    if not path.endswith(NOT_APPLIED)
    for each in yaml.safe_load_all(text)
}


def only(path, files=FILES):
    return next(yaml.safe_load_all(files[path]))


def container(files=FILES):
    return pod(files)["containers"][0]


def pod(files=FILES):
    return only("base/deployment.yaml", files)["spec"]["template"]["spec"]


@pytest.mark.parametrize("name", RESOURCES)
def test_every_resource_keeps_its_schema(name):
    hold(RESOURCES[name])


@pytest.mark.parametrize(
    ("path", "keys"),
    [
        ("base/deployment.yaml", ("spec", "template", "spec", "containers", 0, "readinessProbe")),
        ("base/services.yaml", ("spec", "ports", 0, "targetPort")),
        ("base/disruption-budget.yaml", ("spec", "maxUnavailable")),
        ("components/hpa/hpa.yaml", ("spec", "metrics", 0, "pods", "target", "averageValue")),
        ("components/keda/scaled-object.yaml", ("spec", "triggers", 0, "metricType")),
        ("components/metrics/service-monitor.yaml", ("spec", "endpoints", 0, "interval")),
        ("monitoring/rules-and-dashboards.yaml", ("spec", "groups", 0, "rules")),
    ],
)
def test_a_misspelled_key_is_found(path, keys):
    resource = only(path)
    hold(resource)

    with pytest.raises(jsonschema.ValidationError):
        hold(misspelled(resource, *keys))


@pytest.mark.parametrize("overlay", ["base", "overlays/hpa", "overlays/keda", "monitoring"])
def test_kustomize_builds_what_the_tests_read(tmp_path, overlay):
    """The reader of these tests is held to Kustomize itself."""
    write(tmp_path, FILES)
    if not (text := kubectl("kustomize", tmp_path / overlay)):
        pytest.skip("no kubectl that knows components")
    built = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(text)}

    assert built == build(tmp_path / overlay)


def test_an_autoscaler_decides_alone_how_many_pods_there_are(tmp_path):
    write(tmp_path, FILES)
    by_hand = build(tmp_path / "base")
    hpa, keda = (build(tmp_path / "overlays" / name) for name in ("hpa", "keda"))

    assert by_hand["Deployment", "digits"]["spec"]["replicas"] == 3
    assert "replicas" not in hpa["Deployment", "digits"]["spec"]
    assert "replicas" not in keda["Deployment", "digits"]["spec"]
    assert {kind for kind, _ in hpa.keys() - by_hand.keys()} == {
        "HorizontalPodAutoscaler", "ServiceMonitor",
    }  # fmt: skip
    assert {kind for kind, _ in keda.keys() - by_hand.keys()} == {"ScaledObject", "ServiceMonitor"}
    assert {each["metadata"]["namespace"] for each in (hpa | keda).values()} == {"models"}


def test_probes_ask_what_the_server_answers():
    found = container()

    assert found["startupProbe"]["httpGet"] == {"path": "/ping", "port": "http"}
    assert found["readinessProbe"]["httpGet"] == {"path": "/ping", "port": "http"}
    assert found["livenessProbe"]["httpGet"] == {"path": "/ping/live", "port": "http"}
    assert found["ports"] == [{"name": "http", "containerPort": 8080}]


@pytest.mark.parametrize(
    ("changes", "least_s"),
    [
        ({}, 120),
        ({"load_timeout_s": 1801.0}, 1801),
        ({"env": {"SERVEKIT_LOAD_TIMEOUT": "1800"}}, 1800),
        ({"fetches_at_start": True}, 3600 + 120),
        ({"fetches_at_start": True, "env": {"SERVEKIT_LOAD_TIMEOUT": "7200"}}, 3600 + 7200),
    ],
)
def test_a_pod_is_not_restarted_while_its_models_may_still_load(changes, least_s):
    files = kustomize_files(plan(**changes), dashboards="")
    probe = container(files)["startupProbe"]
    deadline_s = only("base/deployment.yaml", files)["spec"]["progressDeadlineSeconds"]

    assert probe["periodSeconds"] * probe["failureThreshold"] > least_s
    assert deadline_s > probe["periodSeconds"] * probe["failureThreshold"]


@pytest.mark.parametrize(
    ("env", "delay", "grace"),
    [
        ({}, "5", Settings().grace),
        ({"SERVEKIT_GRACE": "120"}, "5", 120),
        ({"SERVEKIT_DRAIN_DELAY": "20", "SERVEKIT_GRACE": "1.5"}, "20", 1.5),
    ],
)
def test_a_pod_gets_the_time_that_the_server_takes_to_drain(env, delay, grace):
    files = kustomize_files(plan(env=env), dashboards="")

    assert {"name": "SERVEKIT_DRAIN_DELAY", "value": delay} in container(files)["env"]
    assert pod(files)["terminationGracePeriodSeconds"] > float(delay) + grace


def test_a_pod_has_no_rights():
    assert pod()["securityContext"]["runAsNonRoot"]
    assert pod()["securityContext"]["runAsUser"] == 10001
    assert pod()["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not pod()["automountServiceAccountToken"]
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container()["volumeMounts"] == [{"name": "tmp", "mountPath": "/tmp"}]


def test_what_is_fetched_at_the_start_has_a_volume():
    files = kustomize_files(plan(fetches_at_start=True), dashboards="")

    assert {"name": "cache", "mountPath": "/var/cache/servekit"} in container(files)["volumeMounts"]
    assert {"name": "cache", "emptyDir": {}} in pod(files)["volumes"]


@pytest.mark.parametrize(
    ("changes", "resources"),
    [
        (
            {},
            {"requests": {"cpu": "3", "memory": "512Mi"}, "limits": {"memory": "512Mi"}},
        ),
        (
            {"gpus": 2},
            {
                "requests": {"cpu": "3", "memory": "512Mi"},
                "limits": {"memory": "512Mi", "nvidia.com/gpu": "2"},
            },
        ),
        ({"memory_mib": None}, {"requests": {"cpu": "3"}}),
    ],
)
def test_resources_are_those_that_were_measured_or_asked_for(changes, resources):
    files = kustomize_files(plan(**changes), dashboards="")

    assert container(files)["resources"] == resources
    is_told = "# memory was not measured" in files["base/deployment.yaml"]
    assert is_told == (changes.get("memory_mib", 1) is None)


def test_prometheus_follows_one_service_and_clients_the_other():
    one, every = yaml.safe_load_all(FILES["base/services.yaml"])
    monitor = only("components/metrics/service-monitor.yaml")["spec"]
    wanted = monitor["selector"]["matchLabels"].items()

    assert wanted <= one["metadata"]["labels"].items()
    assert not wanted <= every["metadata"]["labels"].items()
    assert (one["metadata"]["name"], every["metadata"]["name"]) == ("digits", "digits-pods")
    assert every["spec"]["clusterIP"] == "None"
    pods = only("base/deployment.yaml")["spec"]["template"]["metadata"]["labels"]
    assert set(monitor["podTargetLabels"]) <= pods.keys()
    assert one["spec"]["selector"].items() <= pods.items()


def test_the_port_of_grpc_can_be_reached():
    env = {"SERVEKIT_PLUGIN_OIP_GRPC": "0.0.0.0:9000"}
    files = kustomize_files(plan(env=env), dashboards="")
    one, every = yaml.safe_load_all(files["base/services.yaml"])
    grpc = {"name": "grpc", "port": 9000, "targetPort": "grpc"}

    assert container(files)["ports"][1] == {"name": "grpc", "containerPort": 9000}
    assert grpc in one["spec"]["ports"]
    assert grpc in every["spec"]["ports"]


def test_hpa_and_keda_ask_the_same_of_prometheus():
    rules = only("components/hpa/prometheus-adapter.yaml")["rules"]["custom"]
    metrics = [each["pods"] for each in only("components/hpa/hpa.yaml")["spec"]["metrics"]]
    triggers = only("components/keda/scaled-object.yaml")["spec"]["triggers"]
    match = 'namespace="models",service="digits"'
    for rule, metric, trigger in zip(rules, metrics, triggers, strict=True):
        query = rule["metricsQuery"].replace("<<.LabelMatchers>>", match)
        query = query.replace("<<.GroupBy>>", "pod")

        assert trigger["metadata"]["query"] == f"sum(\n{query}\n)"
        assert metric["metric"]["name"] == rule["name"]["as"]
        assert metric["target"]["averageValue"] == trigger["metadata"]["threshold"]
    assert [metric["target"]["averageValue"] for metric in metrics] == ["0.2", "1"]


@pytest.mark.parametrize(
    ("url", "values"),
    [
        ("http://prom.mon:9090", {"url": "http://prom.mon", "port": 9090, "path": ""}),
        ("https://prom.mon/select", {"url": "https://prom.mon", "port": 443, "path": "/select"}),
    ],
)
def test_the_adapter_asks_the_prometheus_that_was_named(url, values):
    files = kustomize_files(plan(prometheus=url), dashboards="")

    assert only("components/hpa/prometheus-adapter.yaml", files)["prometheus"] == values


def test_every_series_that_scales_is_documented():
    page = (DOCS / "metrics.md").read_text(encoding="utf-8")
    known = set(re.findall(r"^\| `(\w+)` \| \w+ \|", page, re.MULTILINE))
    for signal in (QUEUE_TIME, BUSY):
        found = set(re.findall(r"servekit_\w+", f"{signal.text} {signal.series}"))

        assert {re.sub("_(sum|count)$", "", name) for name in found} <= known


def test_there_is_no_second_monitor_of_the_same_pods():
    kinds = [each["kind"] for each in RESOURCES.values()]

    assert "PodMonitor" not in kinds
    assert kinds.count("PrometheusRule") == 1
    assert kinds.count("ConfigMap") == 3


def test_a_variable_with_braces_stays_a_text():
    braces = "{{ .Name }}"
    files = kustomize_files(plan(env={"TEMPLATE": braces}), DASHBOARDS)

    assert {"name": "TEMPLATE", "value": braces} in container(files)["env"]
