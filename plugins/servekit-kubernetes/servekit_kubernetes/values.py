# SPDX-License-Identifier: Apache-2.0
"""The values that manifests differ by: of a plan, or expressions of Helm in their place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from servekit_kubernetes.plan import KubePlan

__all__ = ["DEADLINE_SPARE_S", "PERIOD_S", "ScalingValues", "Times", "Values", "labels_of"]

PERIOD_S = 5  #: time between two startup or readiness probes
DEADLINE_SPARE_S = 600  #: for a pod to be scheduled and its image to be pulled


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingValues:
    """The values of an autoscaler."""

    least: int | str
    most: int | str
    queue_time: str  #: more pods are added while requests wait longer than this, in seconds
    prometheus: str  #: its URL


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The times that a pod may take."""

    stop_s: int | str
    start_failures: int | str  #: failures of the startup probe, every 5 s
    deadline_s: int | str  #: a rollout without progress is reported after this time

    @classmethod
    def of(cls, plan: KubePlan) -> "Times":
        """Return the times of *plan*."""
        failures = -(-plan.start_s // PERIOD_S)
        deadline_s = failures * PERIOD_S + DEADLINE_SPARE_S
        return cls(stop_s=plan.stop_s, start_failures=failures, deadline_s=deadline_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """The values of a deployment."""

    name: str
    namespace: str
    version: str
    image: str
    replicas: int | str
    scaling: ScalingValues
    times: Times
    env: Sequence[Mapping[str, str]] | str
    resources: Mapping[str, Mapping[str, str]] | str
    security: Mapping[str, Any] | str  #: context of the pod
    monitor_labels: Mapping[str, str] | str  #: of a ServiceMonitor
    volumes: Sequence[Mapping[str, Any]] | str
    mounts: Sequence[Mapping[str, str]] | str
    #: keys of the "pod", its "metadata" and the "container" that only the chart has: users of
    #: Kustomize patch
    more: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: KubePlan) -> "Values":
        """Return the values of *plan*."""
        folders = _folders(plan)
        return cls(
            name=plan.name,
            namespace=plan.namespace,
            version=plan.version,
            image=plan.image.tag,
            replicas=plan.replicas,
            scaling=ScalingValues(
                least=plan.scaling.least,
                most=plan.scaling.most,
                queue_time=f"{plan.queue_time_s:g}",
                prometheus=plan.prometheus,
            ),
            times=Times.of(plan),
            env=[{"name": name, "value": text} for name, text in sorted(plan.every_env.items())],
            resources=plan.resources,
            security=_security(plan.image.user_id),
            monitor_labels=labels_of(plan.name, plan.version),
            volumes=[{"name": name, "emptyDir": {}} for name in folders],
            mounts=[{"name": name, "mountPath": path} for name, path in folders.items()],
        )


def labels_of(name: str, version: str) -> dict[str, str]:
    """Return the labels of the resources of a deployment."""
    return {
        "app.kubernetes.io/name": name,
        "app.kubernetes.io/version": version,
        "app.kubernetes.io/part-of": "servekit",
    }


def _folders(plan: KubePlan) -> dict[str, str]:
    """Return the path of each volume of a pod by its name."""
    cache = {"cache": plan.image.cache_dir} if plan.image.fetches_at_start else {}
    return {"tmp": "/tmp"} | cache  # noqa: S108  # a path in the container


def _security(user: int) -> dict[str, Any]:
    return {
        "runAsNonRoot": True,
        "runAsUser": user,
        "runAsGroup": user,
        "fsGroup": user,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
