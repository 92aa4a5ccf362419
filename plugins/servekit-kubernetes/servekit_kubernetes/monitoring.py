# SPDX-License-Identifier: Apache-2.0
"""Resources for the operator of Prometheus: a ServiceMonitor, rules and dashboards."""

from typing import Any

import yaml

from servekit_kubernetes.scaling import SCRAPE
from servekit_kubernetes.values import Values
from servekit_kubernetes.workload import METRICS
from servekit_kubernetes.yaml_text import Resource, comment

__all__ = ["rules_and_dashboards", "service_monitor"]

#: ten times as fast where PyYAML was built with libyaml, as its wheels are
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
JOB = "servekit"  #: name of the job of all servers in Prometheus, which alerts and dashboards use


def service_monitor(values: Values) -> Resource:
    """Return what has Prometheus scrape each pod, with the labels of the pod."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": {"name": values.name, "labels": values.monitor_labels},
        "spec": {
            "selector": {"matchLabels": {"app.kubernetes.io/name": values.name} | METRICS},
            **comment("becomes app_kubernetes_io_version: which image a pod has"),
            "podTargetLabels": ["app.kubernetes.io/version"],
            "endpoints": [
                {
                    "port": "http",
                    "path": "/metrics",
                    "interval": SCRAPE,
                    "relabelings": [{"targetLabel": "job", "replacement": JOB}],
                }
            ],
        },
    }


def rules_and_dashboards(written: str) -> list[dict[str, Any]]:
    """Return the PrometheusRule and the ConfigMaps of *written*.

    :param written: ``kubernetes.yaml`` of ``servekit dashboards``, whose PodMonitor is left out:
        there is a ServiceMonitor.
    """
    documents = yaml.load_all(written, LOADER)
    return [each for each in documents if each["kind"] != "PodMonitor"]
