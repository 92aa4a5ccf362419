# SPDX-License-Identifier: Apache-2.0
"""Manifests of Kubernetes, with the defaults of its API server."""

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

UNITS = {"": 1, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
#: what the kubelet of these tests does not do; a manifest with it is an error, not ignored
UNKNOWN = ("initContainers", "hostNetwork", "shareProcessNamespace")


def documents(*paths: Path) -> list[dict[str, Any]]:
    """Return the resources in files of YAML."""
    return [each for path in paths for each in yaml.safe_load_all(path.read_text()) if each]


def of_kind(resources: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """Return the one resource of this kind."""
    (found,) = (each for each in resources if each["kind"] == kind)
    return found


def quantity(text: Any) -> float:
    """Return the number that ``512Mi``, ``500m`` or ``2`` stands for."""
    found = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", str(text))
    assert found, f"{text!r} is not a quantity"
    return float(found[1]) * UNITS[found[2]]


def share(value: Any, of: int, *, up: bool) -> int:
    """Return a number of pods that is given as such, or in percent of *of*."""
    if isinstance(value, int):
        return value
    exact = of * int(value.removesuffix("%")) / 100
    return math.ceil(exact) if up else math.floor(exact)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A probe by HTTP."""

    path: str
    port: int
    initial_delay_s: float = 0.0
    period_s: float = 10.0
    timeout_s: float = 1.0
    failures: int = 3  #: one after the other, until it has failed
    successes: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A volume of the kind emptyDir, which is writable."""

    path: str
    in_memory: bool = False
    limit_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTemplate:
    """A pod with one container."""

    image: str
    command: tuple[str, ...] = ()  #: empty: that of the image
    args: tuple[str, ...] = ()
    env: tuple[dict[str, Any], ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    uid: int = 0
    gid: int = 0
    fs_group: int | None = None
    is_read_only: bool = False
    mounts: tuple[Mount, ...] = ()
    memory_bytes: int | None = None  #: the limit
    probes: dict[str, Probe] = field(default_factory=dict)  #: startup, liveness, readiness
    pre_stop_s: float = 0.0
    grace_s: float = 30.0
    port: int = 8080  #: the one called ``http``
    has_service_links: bool = True


def pod_template(deployment: dict[str, Any]) -> PodTemplate:
    """Return the pod of a Deployment."""
    template = deployment["spec"]["template"]
    spec = template["spec"]
    assert not (found := set(UNKNOWN) & set(spec)), f"these tests know no {found}"
    (container,) = spec["containers"]
    security = spec.get("securityContext", {}) | container.get("securityContext", {})
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    limits = container.get("resources", {}).get("limits", {})
    return PodTemplate(
        image=container["image"],
        command=tuple(container.get("command", ())),
        args=tuple(container.get("args", ())),
        env=tuple(container.get("env", ())),
        labels=template["metadata"]["labels"],
        uid=security.get("runAsUser", 0),
        gid=security.get("runAsGroup", 0),
        fs_group=security.get("fsGroup"),
        is_read_only=security.get("readOnlyRootFilesystem", False),
        mounts=tuple(_mounts(spec, container)),
        memory_bytes=int(quantity(limits["memory"])) if "memory" in limits else None,
        probes={
            kind: _probe(container[f"{kind}Probe"], ports)
            for kind in ("startup", "liveness", "readiness")
            if f"{kind}Probe" in container
        },
        pre_stop_s=_pre_stop_s(container),
        grace_s=spec.get("terminationGracePeriodSeconds", 30),
        port=ports["http"],
        has_service_links=spec.get("enableServiceLinks", True),
    )


def _mounts(spec: dict[str, Any], container: dict[str, Any]) -> list[Mount]:
    volumes = {each["name"]: each for each in spec.get("volumes", ())}
    found = []
    for mount in container.get("volumeMounts", ()):
        empty = volumes[mount["name"]]["emptyDir"]  # KeyError: another kind of volume
        found.append(
            Mount(
                path=mount["mountPath"],
                in_memory=empty.get("medium") == "Memory",
                limit_bytes=int(quantity(empty["sizeLimit"])) if "sizeLimit" in empty else None,
            )
        )
    return found


def _probe(given: dict[str, Any], ports: dict[str, int]) -> Probe:
    http = given["httpGet"]
    return Probe(
        path=http["path"],
        port=ports.get(http["port"], http["port"]),
        initial_delay_s=given.get("initialDelaySeconds", 0),
        period_s=given.get("periodSeconds", 10),
        timeout_s=given.get("timeoutSeconds", 1),
        failures=given.get("failureThreshold", 3),
        successes=given.get("successThreshold", 1),
    )


def _pre_stop_s(container: dict[str, Any]) -> float:
    hook = container.get("lifecycle", {}).get("preStop")
    return float(hook["sleep"]["seconds"]) if hook else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """How many pods there may be, and how many must be available."""

    replicas: int
    surge: int
    unavailable: int


def rollout(deployment: dict[str, Any], replicas: int | None = None) -> Rollout:
    """Return the strategy of a Deployment that is scaled to *replicas*."""
    spec = deployment["spec"]
    count = replicas or spec.get("replicas", 1)
    given = spec.get("strategy", {}).get("rollingUpdate", {})
    return Rollout(
        replicas=count,
        surge=share(given.get("maxSurge", "25%"), count, up=True),
        unavailable=share(given.get("maxUnavailable", "25%"), count, up=False),
    )


def disruptions(budget: dict[str, Any], replicas: int) -> int:
    """Return how many of *replicas* a PodDisruptionBudget lets be evicted at once."""
    spec = budget["spec"]
    if "maxUnavailable" in spec:
        return share(spec["maxUnavailable"], replicas, up=True)
    return replicas - share(spec["minAvailable"], replicas, up=True)
