# SPDX-License-Identifier: Apache-2.0
"""Scales pods on the time in queue and on how busy the workers are, with an HPA or KEDA."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from servekit_kubernetes.values import Values
from servekit_kubernetes.workload import labels
from servekit_kubernetes.yaml_text import Resource, comment

__all__ = [
    "BUSY",
    "QUEUE_TIME",
    "SCRAPE",
    "Signal",
    "adapter_values",
    "autoscaler",
    "scaled_object",
]

SCRAPE = "15s"  #: four values within the window of the queries


@dataclass(frozen=True, slots=True)
class Signal:
    """A number for each pod."""

    name: str  #: name of the metric in the API of custom metrics
    series: str  #: one that every pod has
    text: str  #: the query, with ``MATCH`` for matchers of labels and ``BY`` for the labels to keep

    def query(self, match: str, by: str) -> str:
        """Return the query.

        :param match: matchers of labels, such as ``namespace="default"``.
        :param by: the labels of the result: ``pod``.
        """
        return self.text.replace("MATCH", match).replace("BY", by)


#: seconds, of the model that waits longest: the average of the last minute, of the oldest task of
#: each batch; while no batch leaves the queue, each task that waits counts as a second
QUEUE_TIME = Signal(
    "servekit_queue_time_seconds",
    "servekit_tasks_waiting",
    """\
max by (BY) (
    sum by (BY, model) (rate(servekit_queue_duration_seconds_sum{MATCH}[1m]))
  / (sum by (BY, model) (rate(servekit_queue_duration_seconds_count{MATCH}[1m])) > 0)
  or
    sum by (BY, model) (avg_over_time(servekit_tasks_waiting{MATCH}[1m]))
)""",
)
#: 0 to 1, of the busiest model: 1 if its workers spend 70 % of their time in ``predict``. Never
#: more, so this adds no pods: it keeps those without which requests would wait
BUSY = Signal(
    "servekit_busy_ratio",
    "servekit_replicas",
    """\
max by (BY) (clamp_max(
    sum by (BY, model) (rate(servekit_predict_duration_seconds_sum{MATCH}[1m]))
  / (0.7 * sum by (BY, model) (servekit_replicas{MATCH,state="serving"}) > 0),
  1
))""",
)


def adapter_values(prometheus: str) -> Resource:
    """Return values of the chart of prometheus-adapter: both signals, for each pod.

    :param prometheus: the URL that the adapter asks.
    """
    url = urlsplit(prometheus)
    port = url.port or {"http": 80, "https": 443}[url.scheme]
    host = url.netloc.removesuffix(f":{port}")
    return {
        "prometheus": {"url": f"{url.scheme}://{host}", "port": port, "path": url.path},
        "rules": {"custom": [_rule(QUEUE_TIME), _rule(BUSY)]},
    }


def _rule(signal: Signal) -> dict[str, Any]:
    overrides = {name: {"resource": name} for name in ("namespace", "pod")}
    return {
        "seriesQuery": f'{signal.series}{{namespace!="",pod!=""}}',
        "resources": {"overrides": overrides},
        "name": {"as": signal.name},
        "metricsQuery": signal.query("<<.LabelMatchers>>", "<<.GroupBy>>"),
    }


def _behaviour() -> dict[str, Any]:
    """Return how fast the number of pods follows the load: up at once, down one by one."""
    return {
        "scaleUp": {
            "stabilizationWindowSeconds": 0,
            "policies": [
                {"type": "Percent", "value": 100, "periodSeconds": 60},
                {"type": "Pods", "value": 2, "periodSeconds": 60},
            ],
        },
        "scaleDown": {
            "stabilizationWindowSeconds": 300,
            "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}],
        },
    }


def autoscaler(values: Values) -> Resource:
    """Return an HPA."""
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": values.name, "labels": labels(values)},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": values.name},
            "minReplicas": values.scaling.least,
            "maxReplicas": values.scaling.most,
            "metrics": [
                _pods_metric(QUEUE_TIME, values.scaling.queue_time),
                _pods_metric(BUSY, "1"),
            ],
            "behavior": _behaviour(),
        },
    }


def _pods_metric(signal: Signal, target: str) -> dict[str, Any]:
    return {
        "type": "Pods",
        "pods": {
            "metric": {"name": signal.name},
            "target": {"type": "AverageValue", "averageValue": target},
        },
    }


def scaled_object(values: Values) -> Resource:
    """Return KEDA's ScaledObject."""
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": values.name, "labels": labels(values)},
        "spec": {
            "scaleTargetRef": {"name": values.name},
            "minReplicaCount": values.scaling.least,
            "maxReplicaCount": values.scaling.most,
            "pollingInterval": 15,
            **comment("both are sums, which are divided by the number of pods"),
            "triggers": [
                _trigger(QUEUE_TIME, values, values.scaling.queue_time),
                _trigger(BUSY, values, "1"),
            ],
            "advanced": {"horizontalPodAutoscalerConfig": {"behavior": _behaviour()}},
        },
    }


def _trigger(signal: Signal, values: Values, threshold: str) -> dict[str, Any]:
    match = f'namespace="{values.namespace}",service="{values.name}"'
    return {
        "type": "prometheus",
        "metricType": "AverageValue",
        "metadata": {
            "serverAddress": values.scaling.prometheus,
            "query": f"sum(\n{signal.query(match, 'pod')}\n)",
            "threshold": threshold,
        },
    }
