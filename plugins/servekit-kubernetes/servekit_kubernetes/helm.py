# SPDX-License-Identifier: Apache-2.0
"""The files of ``chart/``: the resources of Kustomize, with expressions for their values."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from servekit_kubernetes.helm_computed import computed
from servekit_kubernetes.monitoring import rules_and_dashboards, service_monitor
from servekit_kubernetes.plan import KubePlan
from servekit_kubernetes.scaling import autoscaler, scaled_object
from servekit_kubernetes.values import ScalingValues, Times, Values
from servekit_kubernetes.workload import SETTINGS, deployment, disruption_budget, services
from servekit_kubernetes.yaml_text import Resource, as_template, as_yaml, comment

__all__ = ["helm_files"]

POD_KEYS = ("serviceAccountName", "imagePullSecrets", "nodeSelector", "tolerations", "affinity")


def _if_given(key: str) -> str:
    """Return an expression of the value *key*, whose entry is left out if it is empty."""
    return f"{{{{with .Values.{key}}}}}{{{{ toJson . }}}}{{{{end}}}}"


VALUES = Values(
    name="{{ .Release.Name }}",
    namespace="{{ .Release.Namespace }}",
    version="{{ .Chart.AppVersion | quote }}",
    image="{{ .Values.image | quote }}",
    replicas='{{with include "replicas" .}}{{ . }}{{end}}',
    scaling=ScalingValues(
        least="{{ .Values.autoscaling.minReplicas }}",
        most="{{ .Values.autoscaling.maxReplicas }}",
        queue_time="{{ .Values.autoscaling.queueTime | quote }}",
        prometheus="{{ .Values.autoscaling.prometheus | quote }}",
    ),
    times=Times(
        stop_s='{{ include "stop" . }}',
        start_failures='{{ include "startFailures" . }}',
        deadline_s='{{ include "deadline" . }}',
    ),
    env='{{ include "env" . }}',
    resources="{{ toJson .Values.resources }}",
    security="{{ toJson .Values.podSecurityContext }}",
    monitor_labels='{{ include "monitorLabels" . }}',
    volumes='{{ include "volumes" . }}',
    mounts='{{ include "mounts" . }}',
    more={
        "container": {"envFrom": _if_given("envFrom")},
        "metadata": {"annotations": _if_given("podAnnotations")},
        "pod": {key: _if_given(key) for key in POD_KEYS},
    },
)
#: an autoscaler asks Prometheus, so it gets a ServiceMonitor unless the values say otherwise
MONITORED = (
    'ternary (ne .Values.autoscaling.mode "off") .Values.metrics (kindIs "invalid" .Values.metrics)'
)
NOTES = """\
{{ .Release.Name }} serves at http://{{ .Release.Name }}.{{ .Release.Namespace }}.svc
once its models are loaded:

  kubectl --namespace {{ .Release.Namespace }} rollout status deployment/{{ .Release.Name }}
"""
IGNORED = "*.tgz\n"


def helm_files(plan: KubePlan, dashboards: str) -> dict[str, str]:
    """Return path to content.

    :param dashboards: ``kubernetes.yaml`` of ``servekit dashboards``.
    """
    templates = {
        "deployment": _template([deployment(plan, VALUES)]),
        "services": _template(services(plan, VALUES)),
        "disruption-budget": _template([disruption_budget(VALUES)]),
        "hpa": _template([autoscaler(VALUES)], 'eq .Values.autoscaling.mode "hpa"'),
        "scaled-object": _template([scaled_object(VALUES)], 'eq .Values.autoscaling.mode "keda"'),
        "service-monitor": _template([service_monitor(VALUES)], MONITORED),
    }
    monitoring, files = _monitoring(dashboards)
    templates["rules-and-dashboards"] = _template(monitoring, ".Values.dashboards")
    return {
        "chart/Chart.yaml": as_yaml(_chart(plan)),
        "chart/.helmignore": IGNORED,
        "chart/templates/NOTES.txt": NOTES,
        "chart/values.yaml": as_yaml(_values(plan)),
        "chart/values.schema.json": json.dumps(_schema(), indent=2) + "\n",
        "chart/templates/_computed.tpl": computed(plan),
        **{f"chart/templates/{name}.yaml": text for name, text in templates.items()},
        **{f"chart/{path}": text for path, text in files.items()},
    }


def _template(resources: Sequence[Resource], condition: str = "") -> str:
    """Return a template of *resources* in the namespace of the release."""
    text = as_template(*map(_in_namespace, resources))
    return f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n" if condition else text


def _in_namespace(resource: Resource) -> Resource:
    metadata = {"name": resource["metadata"]["name"], "namespace": VALUES.namespace}
    return {**resource, "metadata": {**metadata, **_without(resource["metadata"], "name")}}


def _without(mapping: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if key not in keys}


def _chart(plan: KubePlan) -> Resource:
    return {
        "apiVersion": "v2",
        "name": plan.name,
        "description": f"Models of the image {plan.image.tag}, served by servekit",
        "type": "application",
        "version": _semantic(plan.version),
        "appVersion": plan.version,
    }


def _semantic(version: str) -> str:
    """Return *version* as Helm wants it, ``1.2.0`` for ``1.2``; ``0.1.0`` if it is not a number."""
    found = re.fullmatch(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?", version)
    return ".".join(str(int(part or 0)) for part in found.groups()) if found else "0.1.0"


def _values(plan: KubePlan) -> Resource:
    """Return the defaults: with them the chart is the base of Kustomize."""
    own = Values.of(plan)
    return {
        "image": own.image,
        **comment("number of pods, unless there is an autoscaler"),
        "replicas": own.replicas,
        **comment("requests and limits of a pod, for the workers that the archives ask for"),
        "resources": own.resources,
        **comment(SETTINGS),
        "env": plan.every_env,
        **comment("Secrets and ConfigMaps with variables, such as SERVEKIT_PREDICT_TOKEN"),
        "envFrom": [],
        **comment(
            "computed from the drain delay and the grace period in env; needed if envFrom has them"
        ),
        "terminationGracePeriodSeconds": None,
        **comment("times 5 s: until the models are loaded; computed from them and from env"),
        "startupFailures": None,
        "autoscaling": {
            **comment("off, hpa (needs prometheus-adapter) or keda"),
            "mode": "off",
            "minReplicas": own.scaling.least,
            "maxReplicas": own.scaling.most,
            **comment("add pods while requests wait longer than this, in seconds"),
            "queueTime": plan.queue_time_s,
            **comment("where KEDA asks"),
            "prometheus": own.scaling.prometheus,
        },
        **_extras(own),
    }


def _extras(own: Values) -> Resource:
    """Return the defaults of what clusters and their operators differ by."""
    return {
        **comment("a ServiceMonitor for the operator of Prometheus; null: with an autoscaler"),
        "metrics": None,
        **comment("alerts and dashboards: for one release of each namespace"),
        "dashboards": False,
        **comment("labels that Prometheus selects monitors and rules by: release: NAME, often"),
        "monitoringLabels": {},
        **comment("besides /tmp, such as a Secret with token files"),
        "volumes": [],
        "volumeMounts": [],
        "podAnnotations": {},
        "podSecurityContext": own.security,
        **comment("whose rights the pods have, such as to fetch assets"),
        "serviceAccountName": "",
        "imagePullSecrets": [],
        "nodeSelector": {},
        "tolerations": [],
        "affinity": {},
    }


def _schema() -> dict[str, Any]:
    """Return the JSON Schema of the values, with which Helm refuses misspelled ones."""
    count = {"type": "integer", "minimum": 1}
    scaling = {
        "mode": {"enum": ["off", "hpa", "keda"]},
        "minReplicas": count,
        "maxReplicas": count,
        "queueTime": {"type": "number", "exclusiveMinimum": 0},
        "prometheus": {"type": "string"},
    }
    scalar = {"type": ["string", "number", "boolean"]}
    properties = {
        "image": {"type": "string", "minLength": 1},
        "replicas": count,
        "resources": {"type": "object"},
        "env": {"type": "object", "additionalProperties": scalar},
        "envFrom": {"type": "array"},
        "terminationGracePeriodSeconds": count | {"type": ["integer", "null"]},
        "startupFailures": count | {"type": ["integer", "null"]},
        "autoscaling": {"type": "object", "properties": scaling, "additionalProperties": False},
        "metrics": {"type": ["boolean", "null"]},
        "dashboards": {"type": "boolean"},
        "monitoringLabels": {"type": "object", "additionalProperties": {"type": "string"}},
        "volumes": {"type": "array"},
        "volumeMounts": {"type": "array"},
        "podAnnotations": {"type": "object", "additionalProperties": {"type": "string"}},
        "podSecurityContext": {"type": "object"},
        "serviceAccountName": {"type": "string"},
        "imagePullSecrets": {"type": "array"},
        "nodeSelector": {"type": "object"},
        "tolerations": {"type": "array"},
        "affinity": {"type": "object"},
        "global": {"type": "object"},  # Helm's
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }


def _monitoring(dashboards: str) -> tuple[list[Resource], dict[str, str]]:
    """Return templates of rules and dashboards, and the files that these include.

    What they contain has braces itself, which Helm would take for expressions.
    """
    templates, files = list[Resource](), dict[str, str]()
    for each in rules_and_dashboards(dashboards):
        if each["kind"] == "PrometheusRule":
            files["files/rules.json"] = json.dumps(each["spec"])
            metadata = each["metadata"] | {"labels": _if_given("monitoringLabels")}
            spec = '{{ .Files.Get "files/rules.json" }}'
            templates.append({**each, "metadata": metadata, "spec": spec})
            continue
        files |= {f"files/{name}": text for name, text in each["data"].items()}
        texts = {name: f'{{{{ .Files.Get "files/{name}" | toJson }}}}' for name in each["data"]}
        templates.append({**each, "data": texts})
    return templates, files
