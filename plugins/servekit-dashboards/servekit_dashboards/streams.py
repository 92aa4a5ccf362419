# SPDX-License-Identifier: Apache-2.0
"""The dashboard of models that stream: how soon and how fast outputs come."""

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

__all__ = ["STREAMS"]

NONE = "no model has streamed yet"
FIRST, INTERVAL = "servekit_first_output_seconds", "servekit_output_interval_seconds"


def heat(series: str) -> tuple[Query, ...]:
    """Return the buckets of the histogram *series*."""
    return (Query(of_model(f"sum by (le) (increase({series}_bucket{{@}}[RATE]))"), "{{le}}"),)


LATENCY = PanelRow(
    "Latency",
    (
        Panel(
            "First output",
            "s",
            "Time to the first output (first token). If it grows, streams wait for a slot.",
            quantiles(FIRST),
            empty=NONE,
        ),
        Panel(
            "Between outputs",
            "s",
            (
                "Time between two outputs (inter-token latency). "
                "If it grows with open streams, allow fewer."
            ),
            quantiles(INTERVAL),
            empty=NONE,
        ),
        Panel(
            "First output by model, p99",
            "s",
            "Which model keeps its users waiting.",
            p99_by("model", FIRST),
            empty=NONE,
        ),
        Panel(
            *("First output, all streams", "s", "How many streams began how soon."),
            heat(FIRST),
            kind="heatmap",
            width=12,
            empty=NONE,
        ),
        Panel(
            *("Between outputs, all streams", "s", "How many outputs came how fast."),
            heat(INTERVAL),
            kind="heatmap",
            width=12,
            empty=NONE,
        ),
    ),
)
THROUGHPUT = PanelRow(
    "Throughput",
    (
        Panel(
            "Outputs",
            "short",
            "Outputs per second (tokens per second, for a language model).",
            rate_by("model", "servekit_outputs_total"),
            empty=NONE,
        ),
        Panel(
            "Open streams",
            "short",
            (
                "At replicas x max_batch_size (max_concurrency of async services), further "
                "streams wait."
            ),
            sum_by("model", "servekit_streams_open"),
            empty=NONE,
        ),
        Panel(
            "Outputs of each stream",
            "short",
            "Outputs per second of one open stream: the pace that one user sees.",
            (
                Query(
                    of_model(
                        f"sum by (model) (rate({INTERVAL}_count{{@}}[RATE]))"
                        f" / sum by (model) (rate({INTERVAL}_sum{{@}}[RATE]))"
                    ),
                    "{{model}}",
                ),
            ),
            empty=NONE,
        ),
        Panel(
            "Cancelled streams",
            "reqps",
            "Streams whose clients disconnected. A sudden rise may be a timeout of a proxy.",
            rate_by("model", "servekit_streams_cancelled_total"),
            empty=NONE,
        ),
        Panel(
            "Streams that wait",
            "short",
            "Requests in the queues of the models.",
            sum_by("model", "servekit_tasks_waiting"),
        ),
        Panel(
            "New streams",
            "reqps",
            "Streams that had their first output, per second.",
            (Query(of_model(f"sum by (model) (rate({FIRST}_count{{@}}[RATE]))"), "{{model}}"),),
            empty=NONE,
        ),
    ),
)
STREAMS = Dashboard(
    uid="servekit-streams",
    title="servekit: streams",
    description="Models that stream: how soon and how fast outputs come.",
    rows=(LATENCY, THROUGHPUT),
    variables={"model": "servekit_replicas", "version": 'servekit_replicas{model=~"$model"}'},
)
