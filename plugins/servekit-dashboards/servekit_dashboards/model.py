# SPDX-License-Identifier: Apache-2.0
"""The dashboard of one model: where the time goes, how batches fill, what its workers do."""

from servekit_dashboards.panels import (
    Dashboard,
    Panel,
    PanelRow,
    Query,
    of_model,
    p99_by,
    quantiles,
    rate_by,
    sum_by,
)

__all__ = ["MODEL"]


def mean_of(part: str) -> Query:
    """Return the mean time of a batch in *part*."""
    series = f"servekit_{part}_duration_seconds"
    return Query(
        of_model(f"sum(rate({series}_sum{{@}}[RATE])) / sum(rate({series}_count{{@}}[RATE]))"), part
    )


REQUESTS = PanelRow(
    "Requests",
    (
        Panel(
            "Requests by status",
            "reqps",
            (
                "429: the queue is full, add replicas. 503: no worker serves. "
                "504: the deadline passed."
            ),
            (
                Query(
                    of_model("sum by (status) (rate(servekit_requests_total{@}[RATE])) > 0"),
                    "{{status}}",
                ),
            ),
            is_stacked=True,
            empty="there were no requests",
        ),
        Panel(
            "Latency",
            "s",
            "Time from the complete request to its response. The dots are traced requests.",
            quantiles("servekit_request_duration_seconds", has_exemplars=True),
        ),
        Panel(
            "Latency, all requests",
            "s",
            "How many responses took how long.",
            (
                Query(
                    of_model(
                        "sum by (le) (increase(servekit_request_duration_seconds_bucket{@}[RATE]))"
                    ),
                    "{{le}}",
                ),
            ),
            kind="heatmap",
        ),
        Panel(
            "Requests by version",
            "reqps",
            "The split of the traffic, and the progress of a swap.",
            rate_by("version", "servekit_requests_total"),
            is_stacked=True,
        ),
        Panel(
            "p99 by version",
            "s",
            "99th percentile of the latency: compare a new version with the old one.",
            p99_by("version", "servekit_request_duration_seconds"),
        ),
        Panel(
            "Tasks that were dropped",
            "reqps",
            (
                "expired: add capacity. cancelled: clients gave up. "
                "poison: `servekit crashes` has the request."
            ),
            rate_by("reason", "servekit_tasks_dropped_total"),
        ),
    ),
)
TIME = PanelRow(
    "Where the time goes",
    (
        Panel(
            "Mean time of a batch",
            "s",
            "Parts of the latency, stacked. The queue is that of the oldest task.",
            tuple(map(mean_of, ("queue", "ipc", "decode", "predict", "encode"))),
            is_stacked=True,
            empty="no batches, or a model with stages: see the stages",
        ),
        Panel(
            "In the queue",
            "s",
            "How long the oldest task of a batch waited. If it grows alone, add replicas.",
            quantiles("servekit_queue_duration_seconds"),
            empty="no batches, or a model with stages: see the stages",
        ),
        Panel(
            "In predict",
            "s",
            "Time in one call. If it grows with the size of batches, the model is saturated.",
            quantiles("servekit_predict_duration_seconds"),
            empty="no batches, or a model with stages: see the stages",
        ),
    ),
)
BATCHES = PanelRow(
    "Batches",
    (
        Panel(
            "Size of batches",
            "short",
            (
                "If most are at `max_batch_size`, the replicas are saturated; "
                "if most are 1, they have time to spare."
            ),
            (
                *quantiles("servekit_batch_size"),
                Query(
                    of_model(
                        "sum(rate(servekit_batch_size_sum{@}[RATE]))"
                        " / sum(rate(servekit_batch_size_count{@}[RATE]))"
                    ),
                    "mean",
                ),
            ),
            empty="no batches, or a model with stages: see the stages",
        ),
        Panel(
            "Why batches left",
            "percentunit",
            (
                "full, cost: saturated. worker_idle: no waiting. "
                "delay_over: `max_delay_ms` costs latency."
            ),
            (
                Query(
                    of_model(
                        "sum by (reason) (rate(servekit_batches_total{@}[RATE]))"
                        " / ignoring (reason) group_left sum(rate(servekit_batches_total{@}[RATE]))"
                    ),
                    "{{reason}}",
                ),
            ),
            is_stacked=True,
        ),
        Panel(
            "Tasks that wait and run",
            "short",
            "Compare those that run with replicas x max_batch_size.",
            (
                Query(of_model("sum(servekit_tasks_waiting{@})"), "waiting"),
                Query(of_model("sum(servekit_tasks_running{@})"), "running"),
            ),
        ),
    ),
)
WORKERS = PanelRow(
    "Workers",
    (
        Panel(
            "Replicas by state",
            "short",
            "`servekit models` says why a replica does not serve.",
            sum_by("state", "servekit_replicas"),
            is_stacked=True,
        ),
        Panel(
            "Memory of each replica",
            "bytes",
            "Private memory that grows without end is a leak; `max_memory` bounds it.",
            (
                Query(
                    of_model("sum by (instance, replica, kind) (servekit_replica_memory_bytes{@})"),
                    "{{instance}} #{{replica}} {{kind}}",
                ),
            ),
        ),
        Panel(
            "Crashes and restarts in an hour",
            "short",
            "`servekit crashes` has a report of each crash, with the requests inside.",
            (
                Query(
                    of_model("sum by (cause) (increase(servekit_crashes_total{@}[1h])) > 0"),
                    "{{cause}}",
                ),
                Query(of_model("sum(increase(servekit_restarts_total{@}[1h]))"), "restarts"),
            ),
        ),
        Panel(
            "Response cache",
            "percentunit",
            "Share of lookups that found a response.",
            (
                Query(
                    of_model(
                        'sum(rate(servekit_cache_looks_total{@, result="hit"}[RATE]))'
                        " / sum(rate(servekit_cache_looks_total{@}[RATE]))"
                    ),
                    "hits",
                ),
            ),
            empty="the model has no response cache",
        ),
        Panel(
            "Mirrored requests",
            "reqps",
            "Copies of requests for another version, by how its responses compare.",
            rate_by("result", "servekit_mirrored_total"),
            empty="no requests are mirrored",
        ),
    ),
)
STAGES = PanelRow(
    "Stages",
    (
        Panel(
            "Queue of each stage, p99",
            "s",
            "The stage with the longest wait is the bottleneck: give it more replicas.",
            p99_by("stage", "servekit_stage_queue_duration_seconds"),
            empty="the model has no stages",
        ),
        Panel(
            "Predict of each stage, p99",
            "s",
            "Time in one call of each stage.",
            p99_by("stage", "servekit_stage_predict_duration_seconds"),
            empty="the model has no stages",
        ),
        Panel(
            "Tasks of each stage",
            "short",
            "Tasks that wait for a stage, and that its workers process.",
            (
                Query(
                    of_model("sum by (stage) (servekit_stage_tasks_waiting{@})"),
                    "{{stage}} waiting",
                ),
                Query(
                    of_model("sum by (stage) (servekit_stage_tasks_running{@})"),
                    "{{stage}} running",
                ),
            ),
            empty="the model has no stages",
        ),
    ),
)
MODEL = Dashboard(
    uid="servekit-model",
    title="servekit: model",
    description="One model: where the time goes, how batches fill, what its workers do.",
    rows=(REQUESTS, TIME, BATCHES, WORKERS, STAGES),
    variables={"model": "servekit_replicas", "version": 'servekit_replicas{model=~"$model"}'},
)
