# SPDX-License-Identifier: Apache-2.0
"""The dashboard of all servers and models: what is wrong, and where."""

from servekit_dashboards.panels import (
    Dashboard,
    Panel,
    PanelRow,
    Query,
    fleet_rate_by,
    in_an_hour,
    of_fleet,
)

__all__ = ["FLEET"]

NOW = PanelRow(
    "Now",
    (
        Panel(
            *("Servers", "short", "Servers that Prometheus reaches."),
            (Query(of_fleet("sum(up{@})")),),
            kind="stat",
            width=4,
        ),
        Panel(
            *("Models", "short", "Models with at least one replica that serves."),
            (Query(of_fleet('count(sum by (model) (servekit_replicas{@, state="serving"}) > 0)')),),
            kind="stat",
            width=4,
            empty="no model is served",
        ),
        Panel(
            *("Requests", "reqps", "Predictions per second, of all models."),
            (Query(of_fleet("sum(rate(servekit_requests_total{@}[RATE]))")),),
            kind="stat",
            width=4,
        ),
        Panel(
            *("Failed", "percentunit", "Share of predictions with a status of 5xx."),
            (
                Query(
                    of_fleet(
                        'sum(rate(servekit_requests_total{@, status=~"5.."}[RATE]))'
                        " / sum(rate(servekit_requests_total{@}[RATE]))"
                    )
                ),
            ),
            kind="stat",
            width=4,
            empty="there were no requests",
            warns_at=0.001,
            fails_at=0.01,
        ),
        Panel(
            "Replicas that do not serve",
            "short",
            (
                "Replicas that failed, or wait before the next attempt. "
                "`servekit models` has the reason."
            ),
            (Query(of_fleet('sum(servekit_replicas{@, state=~"backoff|failed"})')),),
            kind="stat",
            width=4,
            warns_at=1,
            fails_at=2,
        ),
        Panel(
            *("Youngest server", "s", "Uptime of the server that was started last."),
            (Query(of_fleet("min(time() - servekit_start_time_seconds{@})")),),
            kind="stat",
            width=4,
        ),
    ),
)
TRAFFIC = PanelRow(
    "Traffic",
    (
        Panel(
            *("Requests by model", "reqps", "Predictions per second."),
            fleet_rate_by("model", "servekit_requests_total"),
        ),
        Panel(
            "Errors by model",
            "reqps",
            (
                "Predictions per second that the server could not answer (5xx). "
                "The log has the request ids."
            ),
            fleet_rate_by("model", "servekit_requests_total", 'status=~"5.."'),
        ),
        Panel(
            "Refused by model",
            "reqps",
            "Predictions per second that got a 429, since the queue was full: add replicas.",
            fleet_rate_by("model", "servekit_requests_total", 'status="429"'),
        ),
        Panel(
            "p99 by model",
            "s",
            "99th percentile of the time from the complete request to its response.",
            (
                Query(
                    of_fleet(
                        "histogram_quantile(0.99, sum by (le, model)"
                        " (rate(servekit_request_duration_seconds_bucket{@}[RATE])))"
                    ),
                    "{{model}}",
                    has_exemplars=True,
                ),
            ),
        ),
        Panel(
            "Tasks that wait, by model",
            "short",
            "Tasks in the queues. They get a 429 when as many wait as the setting `queue` allows.",
            (Query(of_fleet("sum by (model) (servekit_tasks_waiting{@})"), "{{model}}"),),
        ),
        Panel(
            *("Tasks that run, by model", "short", "Tasks that workers are processing."),
            (Query(of_fleet("sum by (model) (servekit_tasks_running{@})"), "{{model}}"),),
        ),
    ),
)
WORKERS = PanelRow(
    "Workers",
    (
        Panel(
            *("Replicas by state", "short", "Replicas of all models."),
            (Query(of_fleet("sum by (state) (servekit_replicas{@})"), "{{state}}"),),
            is_stacked=True,
        ),
        Panel(
            "Crashes in an hour, by cause",
            "short",
            (
                "Workers that exited unexpectedly, and failed loads. "
                "`servekit crashes` has a report of each."
            ),
            in_an_hour("model, cause", "servekit_crashes_total", "{{model}}: {{cause}}"),
            empty="no worker crashed",
        ),
        Panel(
            "Memory by model",
            "bytes",
            "Resident memory of the workers. Replicas that share weights count them once each.",
            (
                Query(
                    of_fleet("sum by (model) (servekit_replica_memory_bytes{@})"),
                    "{{model}}",
                ),
            ),
            is_stacked=True,
        ),
        Panel(
            "Operations in an hour",
            "short",
            "Loads, swaps, roll backs and other operations that have ended.",
            in_an_hour("kind, result", "servekit_operations_total", "{{kind}} {{result}}"),
            empty="no operation has ended",
        ),
        Panel(
            "Reloads in an hour",
            "short",
            (
                "Results of reloads, once for each model. "
                "After `failed`, the old version still serves."
            ),
            in_an_hour("result", "servekit_reloads_total", "{{result}}"),
            empty="nothing was reloaded",
        ),
        Panel(
            *("Versions", "short", "How many servers run which version of servekit and of Python."),
            (
                Query(
                    of_fleet("count by (version, python) (servekit_build_info{@})"),
                    "servekit {{version}}, Python {{python}}",
                ),
            ),
        ),
        Panel(
            "Other routes",
            "reqps",
            "Requests that are not predictions: health checks, descriptions, pages, management.",
            (
                Query(
                    of_fleet("sum by (listener, status) (rate(flask_http_request_total{@}[RATE]))"),
                    "{{listener}} {{status}}",
                ),
            ),
        ),
        Panel(
            *("Jobs", "short", "Stored jobs, by state."),
            (Query(of_fleet("sum by (state) (servekit_jobs{@})"), "{{state}}"),),
            empty="the servers have no jobs (--jobs)",
        ),
    ),
)
FLEET = Dashboard(
    uid="servekit-fleet",
    title="servekit: fleet",
    description="All servers and models: what is wrong, and where.",
    rows=(NOW, TRAFFIC, WORKERS),
)
