# SPDX-License-Identifier: Apache-2.0
"""The way from events to the collector: a queue, a thread and OTLP. Runs in: observer."""

from __future__ import annotations

import logging
import os
import socket
from importlib import import_module
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

import servekit
from servekit_otel.conversion import Converter
from servekit_otel.settings import protocol_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.sdk.trace import ReadableSpan

    from servekit.extension import RequestTraced
    from servekit_otel.settings import OtelSettings

__all__ = ["TraceExport"]

#: protocol to the module of its exporter, and the extra that installs it
EXPORTERS: Final = {
    "http/protobuf": ("opentelemetry.exporter.otlp.proto.http.trace_exporter", "http"),
    "grpc": ("opentelemetry.exporter.otlp.proto.grpc.trace_exporter", "grpc"),
}
WAITING: Final = 2048  #: spans that wait for the collector, if OTEL_BSP_MAX_QUEUE_SIZE says nothing
QUIET_S: Final = 60.0  #: between two log lines about lost spans

log = logging.getLogger("servekit.otel")


class TraceExport:
    """Exports events as spans. ``add`` never waits for the collector."""

    def __init__(self, settings: OtelSettings) -> None:
        """Start the thread of the batch processor.

        :raises ModuleNotFoundError: the exporter of the protocol is not installed.
        """
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # each retry is logged
        most = int(os.environ.get("OTEL_BSP_MAX_QUEUE_SIZE") or WAITING)
        self.losses = Losses(most)
        exporter = CountingExporter(exporter_of(settings), self.losses)
        self._processor = BatchSpanProcessor(exporter, max_queue_size=most)
        self._converter = Converter(SharedResource(resource_of(settings)))

    def add(self, event: RequestTraced) -> None:
        """Queue the spans of *event*; if the queue is full, spans are dropped and counted."""
        for span in self._converter.spans_of(event):
            self.losses.queue()
            self._processor.on_end(span)

    def end(self) -> None:
        """Export the waiting spans. Blocks as long as the collector does, at most half a minute."""
        self._processor.shutdown()  # type: ignore[no-untyped-call]
        self.losses.report(monotonic())


class Losses:
    """Counts the spans that do not reach the collector, and logs that now and then."""

    def __init__(self, most: int) -> None:
        """*most*: spans that can wait; the oldest of more are dropped."""
        self._most, self._lock = most, Lock()
        self._waiting = self.dropped = self.failed = 0
        self._reported = 0
        self._quiet_until = 0.0

    def queue(self) -> None:
        """Count a span that waits from now on, perhaps in the place of another one."""
        with self._lock:
            if self._waiting < self._most:
                self._waiting += 1
                return
            self.dropped += 1
        self.report(monotonic(), self._quiet_until)

    def take(self, count: int) -> None:
        """Count spans that do not wait any more."""
        with self._lock:
            self._waiting -= count

    def fail(self, count: int) -> None:
        """Count spans that the collector has not taken."""
        with self._lock:
            self.failed += count
        self.report(monotonic(), self._quiet_until)

    def report(self, now: float, quiet_until: float = 0.0) -> None:
        """Log how many spans were lost, if it is more than the last time."""
        if now < quiet_until or self.dropped + self.failed == self._reported:
            return
        self._quiet_until, self._reported = now + QUIET_S, self.dropped + self.failed
        log.warning(
            "spans lost: %d that the collector did not take, %d that waited too long",
            self.failed,
            self.dropped,
        )


class CountingExporter(SpanExporter):
    """Passes spans on, and counts those that are not taken."""

    def __init__(self, exporter: SpanExporter, losses: Losses) -> None:
        """Export with *exporter*."""
        self._exporter, self._losses = exporter, losses

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export *spans*; blocks as long as the exporter tries again."""
        self._losses.take(len(spans))
        try:
            result = self._exporter.export(spans)
        except Exception:
            self._losses.fail(len(spans))
            raise
        if result is not SpanExportResult.SUCCESS:
            self._losses.fail(len(spans))
        return result

    def shutdown(self) -> None:
        """Close the connection."""
        self._exporter.shutdown()


def exporter_of(settings: OtelSettings) -> SpanExporter:
    """Return the OTLP exporter for *settings*.

    :raises ModuleNotFoundError: it is not installed.
    """
    protocol = protocol_of(settings)
    module, extra = EXPORTERS[protocol]
    try:
        found: Any = import_module(module).OTLPSpanExporter
    except ModuleNotFoundError as error:
        text = f"protocol {protocol}: pip install 'servekit-otel[{extra}]'"
        raise ModuleNotFoundError(text, name=error.name) from error
    options: dict[str, Any] = {}
    if settings.endpoint:
        endpoint = settings.endpoint.rstrip("/")
        is_base = extra == "http" and not endpoint.endswith("/v1/traces")
        options["endpoint"] = f"{endpoint}/v1/traces" if is_base else endpoint
    if settings.headers:
        options["headers"] = {name.lower(): text for name, text in settings.headers.items()}
    exporter: SpanExporter = found(**options)
    return exporter


class SharedResource(Resource):
    """A resource whose hash, which each exported span asks for, is computed once."""

    def __init__(self, resource: Resource) -> None:
        """Be *resource*."""
        super().__init__(resource.attributes, resource.schema_url)
        self._hash = super().__hash__()

    def __hash__(self) -> int:
        """Return the hash of its attributes."""
        return self._hash


def resource_of(settings: OtelSettings) -> Resource:
    """Return what all spans of the server have in common."""
    own = {"host.name": socket.gethostname(), "service.version": servekit.__version__}
    found = Resource(own).merge(Resource.create())
    if settings.service_name:
        return found.merge(Resource({SERVICE_NAME: settings.service_name}))
    is_named = not str(found.attributes[SERVICE_NAME]).startswith("unknown_service")
    return found if is_named else found.merge(Resource({SERVICE_NAME: "servekit"}))
