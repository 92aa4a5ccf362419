# SPDX-License-Identifier: Apache-2.0
"""Deployment, Services and PodDisruptionBudget: what every cluster has."""

from typing import Any

from servekit_kubernetes.plan import KubePlan
from servekit_kubernetes.values import PERIOD_S, Values, labels_of
from servekit_kubernetes.yaml_text import Resource, comment

__all__ = [
    "METRICS",
    "SETTINGS",
    "deployment",
    "disruption_budget",
    "labels",
    "probes",
    "services",
]

SETTINGS = "settings: https://github.com/servekit/servekit/blob/main/docs/settings.md"
METRICS = {"servekit.io/metrics": "true"}  #: label of the Service that Prometheus follows


def selector(values: Values) -> dict[str, str]:
    """Return the label by which the pods are found; it never changes."""
    return {"app.kubernetes.io/name": values.name}


def labels(values: Values) -> dict[str, str]:
    """Return the labels of a resource."""
    return labels_of(values.name, values.version)


def deployment(plan: KubePlan, values: Values) -> Resource:
    """Return the Deployment."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": values.name, "labels": labels(values)},
        "spec": {
            "replicas": values.replicas,
            **comment("a new pod serves before an old one leaves"),
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
            },
            "progressDeadlineSeconds": values.times.deadline_s,
            "selector": {"matchLabels": selector(values)},
            "template": {
                "metadata": {"labels": labels(values), **values.more.get("metadata", {})},
                "spec": _pod(plan, values),
            },
        },
    }


def _pod(plan: KubePlan, values: Values) -> dict[str, Any]:
    return {
        **comment("the drain delay, the grace period of the server, and some to spare"),
        "terminationGracePeriodSeconds": values.times.stop_s,
        "automountServiceAccountToken": False,
        **comment("a Service named servekit would set SERVEKIT_PORT otherwise"),
        "enableServiceLinks": False,
        "securityContext": values.security,
        **comment("different nodes, if there are any"),
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": selector(values)},
            }
        ],
        **values.more.get("pod", {}),
        "containers": [_container(plan, values)],
        "volumes": values.volumes,
    }


def _container(plan: KubePlan, values: Values) -> dict[str, Any]:
    unmeasured = comment("memory was not measured: `servekit check MODEL` measures it")
    return {
        "name": "servekit",
        "image": values.image,
        **comment(SETTINGS),
        "env": values.env,
        **values.more.get("container", {}),
        "ports": [{"name": name, "containerPort": port} for name, port in plan.ports.items()],
        **probes(values.times.start_failures),
        **(unmeasured if plan.memory_mib is None else {}),
        "resources": values.resources,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": values.mounts,
    }


def probes(start_failures: int | str) -> dict[str, Any]:
    """Return the probes of a container that serves HTTP on the port ``http``.

    :param start_failures: how often the startup probe may fail, every 5 s.
    """
    ready = {"httpGet": {"path": "/ping", "port": "http"}, "timeoutSeconds": 5}
    return {
        **comment("until the models are loaded for the first time, only this probe runs"),
        "startupProbe": {**ready, "periodSeconds": PERIOD_S, "failureThreshold": start_failures},
        **comment("alive while the server responds, whatever its models do"),
        "livenessProbe": {
            "httpGet": {"path": "/ping/live", "port": "http"},
            "periodSeconds": 10,
            "timeoutSeconds": 5,
        },
        **comment("ready while every model is, and until SIGTERM"),
        "readinessProbe": {**ready, "periodSeconds": PERIOD_S, "failureThreshold": 2},
    }


def services(plan: KubePlan, values: Values) -> tuple[Resource, Resource]:
    """Return a Service with one address, and a headless one whose name has every pod's."""
    direct = [{"name": name, "port": port, "targetPort": name} for name, port in plan.ports.items()]
    one = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": values.name, "labels": labels(values) | METRICS},
        "spec": {"selector": selector(values), "ports": [direct[0] | {"port": 80}, *direct[1:]]},
    }
    every = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": f"{values.name}-pods", "labels": labels(values)},
        "spec": {
            **comment("its name has the address of each ready pod: DnsDiscovery follows it"),
            "clusterIP": "None",
            "selector": selector(values),
            "ports": direct,
        },
    }
    return one, every


def disruption_budget(values: Values) -> Resource:
    """Return what lets the cluster evict one pod at a time."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": values.name, "labels": labels(values)},
        "spec": {
            "maxUnavailable": 1,
            **comment("a pod that is not ready does not keep its node from being drained"),
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": selector(values)},
        },
    }
