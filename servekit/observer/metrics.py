# SPDX-License-Identifier: Apache-2.0
"""Reads ``/metrics`` of the server over its private socket."""

import socket
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from servekit.extension.events import MetricFamily, MetricSample

__all__ = ["MetricsUnavailable", "parse", "read_metrics"]

TIMEOUT_S = 5.0


class MetricsUnavailable(Exception):
    """No front-end answers."""


class UnixConnection(HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        """Connect to *path* when the first request is made."""
        super().__init__("localhost", timeout=TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        """Connect."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def read_metrics(path: Path) -> list[MetricFamily]:
    """Return all metrics of the server whose private socket is at *path*. Blocks for seconds.

    :raises MetricsUnavailable: no front-end answers.
    """
    connection = UnixConnection(path)
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
