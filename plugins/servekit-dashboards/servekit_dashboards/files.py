# SPDX-License-Identifier: Apache-2.0
"""The files that ``servekit dashboards`` writes, by their paths."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import indent

from servekit_dashboards.alerts import ALERTS, RECORDINGS, link
from servekit_dashboards.fleet import FLEET
from servekit_dashboards.grafana import grafana_json
from servekit_dashboards.model import MODEL
from servekit_dashboards.streams import STREAMS

__all__ = ["DASHBOARDS", "Targets", "files"]

DASHBOARDS = (FLEET, MODEL, STREAMS)
WRITTEN = "# Written by `servekit dashboards`, which writes it again with --force.\n"


@dataclass(frozen=True, slots=True)
class Targets:
    """The servers that Prometheus scrapes."""

    job: str
    addresses: Sequence[str]  #: ``HOST:PORT``


def files(targets: Targets) -> Mapping[str, str]:
    """Return path to content of each file."""
    dashboards = {
        f"dashboards/{each.uid}.json": json.dumps(grafana_json(each, targets.job), indent=2) + "\n"
        for each in DASHBOARDS
    }
    rules = WRITTEN + "".join(_rules(targets.job))
    return {
        **dashboards,
        "rules/servekit.yml": rules,
        "prometheus.yml": WRITTEN + PROMETHEUS.format(targets=_targets(targets)),
        "grafana/datasources/prometheus.yml": WRITTEN + DATA_SOURCE,
        "grafana/dashboards/servekit.yml": WRITTEN + PROVIDER,
        "kubernetes.yaml": WRITTEN + "".join(_kubernetes(targets, dashboards)),
    }


PROMETHEUS = """\
# To add it to an own prometheus.yml, copy the entries of rule_files and scrape_configs.
global:
  scrape_interval: 15s
  evaluation_interval: 15s
rule_files:
  - rules/servekit.yml
scrape_configs:
{targets}"""

DATA_SOURCE = """\
# /etc/grafana/provisioning/datasources/
apiVersion: 1
datasources:
  - name: Prometheus
    type: prometheus
    url: http://prometheus:9090
    isDefault: true
"""

PROVIDER = """\
# /etc/grafana/provisioning/dashboards/
apiVersion: 1
providers:
  - name: servekit
    folder: servekit
    type: file
    options:
      path: /var/lib/grafana/dashboards
"""


def _targets(targets: Targets) -> str:
    addresses = ", ".join(json.dumps(address) for address in targets.addresses)
    return (
        f"  - job_name: {json.dumps(targets.job)}\n"
        "    static_configs:\n"
        f"      - targets: [{addresses}]\n"
    )


def _rules(job: str) -> Iterator[str]:
    """Yield the groups of rules as YAML; strings are quoted as in JSON, which is YAML as well."""
    yield "groups:\n  - name: servekit-recordings\n    rules:\n"
    for recording in RECORDINGS:
        yield f"      - record: {recording.name}\n        expr: {json.dumps(recording.expr)}\n"
    yield "  - name: servekit-alerts\n    rules:\n"
    for alert in ALERTS:
        yield (
            f"      - alert: {alert.name}\n"
            f"        expr: {_text(alert.expr.replace('JOB', job))}\n"
            f"        for: {alert.held_for}\n"
            f"        labels: {{severity: {alert.severity}}}\n"
            "        annotations:\n"
            f"          summary: {_text(alert.summary)}\n"
            f"          description: {_text(alert.runbook)}\n"
            f"          runbook_url: {link(alert.page)}\n"
        )


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _kubernetes(targets: Targets, dashboards: Mapping[str, str]) -> Iterator[str]:
    """Yield manifests for the operator of Prometheus, and for Grafana's sidecar."""
    yield KUBERNETES.format(job=json.dumps(targets.job))
    yield indent("".join(_rules(targets.job)), "  ")
    for path, text in dashboards.items():
        name = path.rpartition("/")[2]
        yield CONFIG_MAP.format(name=name.removesuffix(".json"), file=name)
        yield indent(text, "    ")


KUBERNETES = """\
# kubectl apply -f kubernetes.yaml, in the namespace of the server. It needs the operator of
# Prometheus, and Grafana with its sidecar, as the chart kube-prometheus-stack installs them.
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata:
  name: servekit
spec:
  selector:
    matchLabels: {{servekit.io/metrics: "true"}}
  podMetricsEndpoints:
    - port: http
      relabelings:
        - {{targetLabel: job, replacement: {job}}}
---
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: servekit
spec:
"""

CONFIG_MAP = """\
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {name}
  labels: {{grafana_dashboard: "1"}}
data:
  {file}: |
"""
