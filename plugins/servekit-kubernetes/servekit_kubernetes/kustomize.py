# SPDX-License-Identifier: Apache-2.0
"""The files of ``base/``, ``components/``, ``overlays/`` and ``monitoring/``, for Kustomize."""

from collections.abc import Mapping, Sequence
from typing import Any

from servekit_kubernetes.monitoring import rules_and_dashboards, service_monitor
from servekit_kubernetes.plan import KubePlan
from servekit_kubernetes.scaling import adapter_values, autoscaler, scaled_object
from servekit_kubernetes.values import Values
from servekit_kubernetes.workload import deployment, disruption_budget, services
from servekit_kubernetes.yaml_text import Resource, as_yaml

__all__ = ["kustomize_files"]

#: an autoscaler decides; `kubectl apply` would set the number again otherwise
WITHOUT_REPLICAS = "- op: remove\n  path: /spec/replicas\n"
ADAPTER = """\
# The metrics of the HPA, for the chart prometheus-adapter:
#   helm upgrade --install prometheus-adapter prometheus-community/prometheus-adapter \\
#     --namespace monitoring --values prometheus-adapter.yaml
"""


def kustomize_files(plan: KubePlan, dashboards: str) -> dict[str, str]:
    """Return path to content.

    :param dashboards: ``kubernetes.yaml`` of ``servekit dashboards``.
    """
    values = Values.of(plan)
    base = {
        "deployment": [deployment(plan, values)],
        "services": services(plan, values),
        "disruption-budget": [disruption_budget(values)],
    }
    return {
        **_folder("base", base, namespace=plan.namespace),
        **_component("hpa", {"hpa": [autoscaler(values)]}, patches=[_patch(values.name)]),
        "components/hpa/prometheus-adapter.yaml": ADAPTER
        + as_yaml(adapter_values(plan.prometheus)),
        **_component(
            "keda", {"scaled-object": [scaled_object(values)]}, patches=[_patch(values.name)]
        ),
        **_component("metrics", {"service-monitor": [service_monitor(values)]}),
        **_overlay("hpa", plan.namespace),
        **_overlay("keda", plan.namespace),
        **_folder("monitoring", {"rules-and-dashboards": rules_and_dashboards(dashboards)}),
    }


def _folder(path: str, content: Mapping[str, Sequence[Resource]], **entries: Any) -> dict[str, str]:
    """Return the files of a kustomization with each group of resources in a file."""
    files = {f"{path}/{name}.yaml": as_yaml(*found) for name, found in content.items()}
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        **entries,
        "resources": [f"{name}.yaml" for name in content],
    }
    return {f"{path}/kustomization.yaml": as_yaml(kustomization)} | files


def _component(
    name: str, content: Mapping[str, Sequence[Resource]], **entries: Any
) -> dict[str, str]:
    kind = {"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component"}
    return _folder(f"components/{name}", content, **kind, **entries)


def _overlay(scaler: str, namespace: str) -> dict[str, str]:
    """Return the base with an autoscaler and metrics."""
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": namespace,
        "resources": ["../../base"],
        "components": ["../../components/metrics", f"../../components/{scaler}"],
    }
    return {f"overlays/{scaler}/kustomization.yaml": as_yaml(kustomization)}


def _patch(name: str) -> dict[str, Any]:
    return {"target": {"kind": "Deployment", "name": name}, "patch": WITHOUT_REPLICAS}
