# SPDX-License-Identifier: Apache-2.0
"""The alerts and recording rules, for servers that Prometheus scrapes as one job."""

from dataclasses import dataclass

from servekit_dashboards.panels import DOCS

__all__ = ["ALERTS", "RECORDINGS", "Alert", "Recording", "link"]

BY_MODEL = "sum by (job, model)"
RATE = "model:servekit_requests:rate5m"
P99 = "model:servekit_request_duration_seconds:p99_5m"
FIRST_P95 = "model:servekit_first_output_seconds:p95_5m"


@dataclass(frozen=True, slots=True)
class Recording:
    """A series that Prometheus computes once, since several panels and alerts use it."""

    name: str
    expr: str


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert; ``JOB`` in its expression is the name of the job."""

    name: str
    severity: (
        str  #: ``critical``: users notice. ``warning``: they soon will, or somebody has to look
    )
    expr: str
    held_for: str  #: how long the expression has been true before it fires
    summary: str  #: one line, with labels
    runbook: str  #: what to do first
    page: str  #: the page of the documentation that helps


def _p(quantile: float, series: str) -> str:
    return f"histogram_quantile({quantile}, sum by (job, model, le) (rate({series}_bucket[5m])))"


RECORDINGS = (
    Recording(RATE, f"{BY_MODEL} (rate(servekit_requests_total[5m]))"),
    Recording(
        "model:servekit_request_errors:ratio_rate5m",
        f'{BY_MODEL} (rate(servekit_requests_total{{status=~"5.."}}[5m])) / {RATE}',
    ),
    Recording(
        "model:servekit_requests_refused:ratio_rate5m",
        f'{BY_MODEL} (rate(servekit_requests_total{{status="429"}}[5m])) / {RATE}',
    ),
    Recording(
        "model:servekit_request_duration_seconds:p50_5m",
        _p(0.5, "servekit_request_duration_seconds"),
    ),
    Recording(P99, _p(0.99, "servekit_request_duration_seconds")),
    Recording(FIRST_P95, _p(0.95, "servekit_first_output_seconds")),
)

ALERTS = (
    Alert(
        "ServekitServerDown",
        "critical",
        'up{job="JOB"} == 0',
        "2m",
        "{{ $labels.instance }} does not answer Prometheus",
        (
            "Look at the log of the process, or of its container. "
            "`servekit status` asks it on its own machine."
        ),
        "operating.md",
    ),
    Alert(
        "ServekitServerRestarts",
        "warning",
        'changes(servekit_start_time_seconds{job="JOB"}[30m]) > 2',
        "0m",
        "{{ $labels.instance }} was started {{ $value }} times within 30 minutes",
        (
            "Something ends the whole server: look for an exit status or an out-of-memory "
            "kill of the container."
        ),
        "operating.md",
    ),
    Alert(
        "ServekitModelUnavailable",
        "critical",
        'max by (job, instance, model) (servekit_model_ready{job="JOB"}) == 0'
        " unless on (job, instance, model) servekit_model_asleep == 1",
        "2m",
        "no replica of {{ $labels.model }} or of a stage serves, on {{ $labels.instance }}",
        (
            "`servekit models` says why; `servekit crashes` and `servekit logs NAME` show "
            "what happened before."
        ),
        "operating.md",
    ),
    Alert(
        "ServekitReplicasFailing",
        "warning",
        'sum by (job, instance, model) (servekit_replicas{job="JOB", state=~"backoff|failed"}) > 0',
        "5m",
        "{{ $value }} replicas of {{ $labels.model }} do not serve, on {{ $labels.instance }}",
        "`servekit models` has the reason, and says when the next attempt is.",
        "behaviour.md",
    ),
    Alert(
        "ServekitErrors",
        "critical",
        f'model:servekit_request_errors:ratio_rate5m{{job="JOB"}} > 0.05 and {RATE} > 0.1',
        "2m",
        "{{ $value | humanizePercentage }} of the predictions of {{ $labels.model }} fail",
        (
            "Group by `status`. 500: the log has the traceback by request id. 503: no worker. "
            "504: too slow."
        ),
        "http-api.md#errors",
    ),
    Alert(
        "ServekitWorkersCrash",
        "warning",
        'sum by (job, model, cause) (increase(servekit_crashes_total{job="JOB"}[15m])) > 0.5',
        "0m",
        "workers of {{ $labels.model }} crashed: {{ $labels.cause }}",
        "`servekit crashes` shows the signal, the last lines and the requests that were inside.",
        "metrics.md#workers",
    ),
    Alert(
        "ServekitCrashLoop",
        "critical",
        'sum by (job, model) (increase(servekit_crashes_total{job="JOB"}[15m])) > 5',
        "0m",
        "workers of {{ $labels.model }} crashed {{ $value | humanize }} times within 15 minutes",
        (
            "After a change of version: `servekit rollback MODEL`. "
            "Otherwise find the request with `servekit crashes`."
        ),
        "versions.md",
    ),
    Alert(
        "ServekitOutOfMemory",
        "warning",
        "sum by (job, model)"
        ' (increase(servekit_crashes_total{job="JOB", cause="out_of_memory"}[30m])) > 0.5',
        "0m",
        "the kernel killed workers of {{ $labels.model }} to free memory",
        (
            "Fewer replicas, smaller batches or more memory. "
            "`servekit check` measures what a worker needs."
        ),
        "scaling.md",
    ),
    Alert(
        "ServekitMemoryGrows",
        "warning",
        "sum by (job, instance, model, replica)"
        ' (servekit_replica_memory_bytes{job="JOB", kind="private"})'
        " > 1.5 * sum by (job, instance, model, replica)"
        ' (servekit_replica_memory_bytes{job="JOB", kind="private"} offset 6h) + 200e6',
        "1h",
        "replica {{ $labels.replica }} of {{ $labels.model }} grows: {{ $value | humanize1024 }}B",
        (
            "The service may leak memory. `max_memory` has a replica replaced before the "
            "machine is full."
        ),
        "scaling.md#replicas-that-grow",
    ),
    Alert(
        "ServekitQueueFull",
        "warning",
        f'model:servekit_requests_refused:ratio_rate5m{{job="JOB"}} > 0.01 and {RATE} > 0.1',
        "5m",
        "{{ $value | humanizePercentage }} of the predictions of {{ $labels.model }} get a 429",
        "The model cannot take this load: more replicas (`servekit scale`), or larger batches.",
        "scaling.md",
    ),
    Alert(
        "ServekitSaturated",
        "warning",
        'sum by (job, model) (rate(servekit_queue_duration_seconds_sum{job="JOB"}[10m]))'
        ' > 2 * sum by (job, model) (rate(servekit_predict_duration_seconds_sum{job="JOB"}[10m]))'
        " and sum by (job, model)"
        ' (rate(servekit_batches_total{job="JOB", reason=~"full|cost"}[10m]))'
        ' > 0.9 * sum by (job, model) (rate(servekit_batches_total{job="JOB"}[10m]))',
        "15m",
        "{{ $labels.model }} is saturated: full batches, and tasks wait longer than predict takes",
        (
            "More replicas, or a larger `max_batch_size` if `predict` hardly takes longer "
            "for larger batches."
        ),
        "scaling.md",
    ),
    Alert(
        "ServekitDeadlinesExpire",
        "warning",
        'sum by (job, model) (rate(servekit_tasks_dropped_total{job="JOB", reason="expired"}[5m]))'
        f" > 0.01 * sum by (job, model) ({RATE})",
        "5m",
        "requests of {{ $labels.model }} expire in its queue",
        "Add capacity, or a shorter queue: then clients get a 429 at once and can try elsewhere.",
        "behaviour.md",
    ),
    Alert(
        "ServekitLatencyUp",
        "warning",
        f'{P99}{{job="JOB"}} > 3 * avg_over_time({P99}[1d]) and {P99} > 0.05 and {RATE} > 0.1',
        "15m",
        (
            "p99 of {{ $labels.model }} is {{ $value | humanizeDuration }}, three times its "
            "average of a day"
        ),
        "The dashboard of the model shows which part grew: queue, decode, predict, encode or ipc.",
        "metrics.md#predictions",
    ),
    Alert(
        "ServekitFirstOutputSlow",
        "warning",
        f'{FIRST_P95}{{job="JOB"}} > 3 * avg_over_time({FIRST_P95}[1d]) and {FIRST_P95} > 0.1',
        "15m",
        "streams of {{ $labels.model }} begin after {{ $value | humanizeDuration }}",
        (
            "Streams wait for a slot: compare `servekit_streams_open` with the slots, and "
            "add replicas."
        ),
        "streaming.md",
    ),
    Alert(
        "ServekitStreamsCancelled",
        "warning",
        'sum by (job, model) (rate(servekit_streams_cancelled_total{job="JOB"}[10m]))'
        ' > 0.5 * sum by (job, model) (rate(servekit_first_output_seconds_count{job="JOB"}[10m]))',
        "10m",
        "clients of {{ $labels.model }} disconnect from most streams",
        "Often a timeout of a proxy or client. Compare it with the time between outputs.",
        "streaming.md",
    ),
    Alert(
        "ServekitReloadFailed",
        "warning",
        "sum by (job, instance)"
        ' (increase(servekit_reloads_total{job="JOB", result="failed"}[15m])) > 0.5',
        "0m",
        "a reload failed on {{ $labels.instance }}; the old version still serves",
        "The log has the reason. The next reload tries again.",
        "management.md",
    ),
    Alert(
        "ServekitOperationFailed",
        "warning",
        "sum by (job, instance, kind)"
        ' (increase(servekit_operations_total{job="JOB", result="failed"}[15m])) > 0.5',
        "0m",
        "{{ $labels.kind }} failed on {{ $labels.instance }}",
        (
            "The log has the reason: a swap that was rolled back, a model that cannot be "
            "loaded, no memory."
        ),
        "management.md",
    ),
)


def link(page: str) -> str:
    """Return the address of *page*."""
    return f"{DOCS}{page}"
