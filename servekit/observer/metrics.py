# SPDX-License-Identifier: Apache-2.0
"""Reads ``/metrics`` of the server over its private socket."""

from http.client import HTTPException
from pathlib import Path

from servekit.extension.events import MetricFamily, MetricSample
from servekit.system.unix_http import UnixConnection

__all__ = ["MetricsUnavailable", "parse", "read_metrics"]

TIMEOUT_S = 5.0


class MetricsUnavailable(Exception):
    """No front-end answers."""


def read_metrics(path: Path) -> list[MetricFamily]:
    """Return all metrics of the server whose private socket is at *path*. Blocks for seconds.

    :raises MetricsUnavailable: no front-end answers.
    """
    connection = UnixConnection(path, TIMEOUT_S)
    try:
        connection.request("GET", "/metrics")
        response = connection.getresponse()
        text = response.read().decode()
    except (OSError, HTTPException, UnicodeDecodeError) as error:
        raise MetricsUnavailable(str(error) or type(error).__name__) from error
    finally:
        connection.close()
    if response.status != 200:
        raise MetricsUnavailable(f"the status of /metrics is {response.status}")
    return parse(text)


def parse(text: str) -> list[MetricFamily]:
    """Return the metrics in *text*, which is in the text format of Prometheus."""
    from prometheus_client.parser import text_string_to_metric_families  # most plugins need none

    return [
        MetricFamily(
            family.name,
            family.type,
            family.documentation,
            [MetricSample(each.name, each.labels, each.value) for each in family.samples],
        )
        for family in text_string_to_metric_families(text)
    ]
