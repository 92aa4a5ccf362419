# SPDX-License-Identifier: Apache-2.0
"""Numbers and lists that the templates of the chart compute from its values."""

import json

from servekit.settings import Settings
from servekit_kubernetes.environment import CONFLICTS
from servekit_kubernetes.plan import SPARE_S, KubePlan
from servekit_kubernetes.values import DEADLINE_SPARE_S, PERIOD_S, Values

__all__ = ["computed"]

TEXT = """\
{{/* the variables as a list, in JSON; a number of a file of values is a float in Helm */}}
{{- define "env" -}}
{{- $conflicts := fromJson %(conflicts)s -}}
{{- $env := list -}}
{{- range $name, $value := .Values.env -}}
{{- with get $conflicts $name }}{{ fail (printf "env.%%s: %%s" $name .) }}{{ end -}}
{{- if kindIs "float64" $value }}{{ $value = toJson $value }}{{ end -}}
{{- $env = append $env (dict "name" $name "value" (toString $value)) -}}
{{- end -}}
{{- toJson $env -}}
{{- end -}}

{{/* with an autoscaler, those that there are: Helm would reset them otherwise */}}
{{- define "replicas" -}}
{{- if eq .Values.autoscaling.mode "off" -}}
{{- .Values.replicas -}}
{{- else -}}
{{- with lookup "apps/v1" "Deployment" .Release.Namespace .Release.Name -}}
{{- .spec.replicas -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* those of the server, and more */}}
{{- define "volumes" -}}
{{- toJson (concat (fromJsonArray %(volumes)s) (default list .Values.volumes)) -}}
{{- end -}}

{{- define "mounts" -}}
{{- toJson (concat (fromJsonArray %(mounts)s) (default list .Values.volumeMounts)) -}}
{{- end -}}

{{- define "monitorLabels" -}}
{{- $own := dict "app.kubernetes.io/name" .Release.Name "app.kubernetes.io/part-of" "servekit" -}}
{{- $_ := set $own "app.kubernetes.io/version" .Chart.AppVersion -}}
{{- toJson (merge $own (default dict .Values.monitoringLabels)) -}}
{{- end -}}

{{/* the drain delay, the grace period of the server, and some to spare */}}
{{- define "stop" -}}
{{- with .Values.terminationGracePeriodSeconds }}{{ int . }}{{ else -}}
{{- $delay := float64 (default 0 .Values.env.SERVEKIT_DRAIN_DELAY) -}}
{{- $grace := float64 (default %(grace)s .Values.env.SERVEKIT_GRACE) -}}
{{- add (ceil (addf $delay $grace)) %(stop_spare)s -}}
{{- end -}}
{{- end -}}

{{/* how often the startup probe may fail: for the load of the models, and some to spare */}}
{{- define "startFailures" -}}
{{- with .Values.startupFailures }}{{ int . }}{{ else -}}
{{- $load := float64 (default 0 .Values.env.SERVEKIT_LOAD_TIMEOUT) -}}
{{- if eq $load 0.0 }}{{ $load = %(load)s }}{{ end -}}
{{- ceil (divf (addf (ceil $load) %(start_spare)s) %(period)s) | int -}}
{{- end -}}
{{- end -}}

{{/* a rollout without progress is reported after this time */}}
{{- define "deadline" -}}
{{- add (mul %(period)s (include "startFailures" . | int)) %(deadline_spare)s -}}
{{- end -}}
"""


def computed(plan: KubePlan) -> str:
    """Return ``templates/_computed.tpl``."""
    values = Values.of(plan)
    return TEXT % {
        "conflicts": f"`{json.dumps(CONFLICTS)}`",
        "volumes": f"`{json.dumps(values.volumes)}`",
        "mounts": f"`{json.dumps(values.mounts)}`",
        "grace": f"{Settings().grace:g}",
        "stop_spare": SPARE_S,
        "load": float(plan.image.load_timeout_s),
        "start_spare": plan.start_spare_s,
        "period": PERIOD_S,
        "deadline_spare": DEADLINE_SPARE_S,
    }
