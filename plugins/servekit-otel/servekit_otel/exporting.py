# SPDX-License-Identifier: Apache-2.0
"""The way from events to the collector: a queue, a thread and OTLP. Runs in: observer."""

from __future__ import annotations

import logging
import socket
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.sdk.resources import SERVICE_NAME, Resource

import servekit
from servekit_otel.conversion import Converter
from servekit_otel.otlp import RequestFrame
from servekit_otel.queue import EncodedRequest, QueueLimits, SpanQueue
from servekit_otel.settings import protocol_of

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

    from servekit.extension import RequestTraced
    from servekit_otel.settings import OtelSettings

__all__ = ["TraceExport"]

#: protocol to the module of its exporter, and the extra that installs it
EXPORTERS: Final = {
    "http/protobuf": ("opentelemetry.exporter.otlp.proto.http.trace_exporter", "http"),
    "grpc": ("opentelemetry.exporter.otlp.proto.grpc.trace_exporter", "grpc"),
}


class TraceExport:
    """Exports events as spans. ``add`` never waits for the collector."""

    def __init__(self, settings: OtelSettings) -> None:
        """Start the thread that exports.

        :raises ModuleNotFoundError: the exporter of the protocol is not installed.
        """
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # each retry is logged
        resource, scope = resource_of(settings), ("servekit", servekit.__version__)
        frame = RequestFrame(resource.attributes, resource.schema_url, scope)
        self._converter = Converter()
        self.queue = SpanQueue(exporter_of(settings), frame, QueueLimits.of_variables())

    def add(self, event: RequestTraced) -> None:
        """Queue the spans of *event*; if the queue is full, the oldest are dropped and counted."""
        spans = self._converter.spans_of(event)
        if spans is not None:
            self.queue.add(spans)

    def end(self) -> None:
        """Export the waiting spans. Blocks as long as the collector does, at most half a minute."""
        self.queue.end()


def exporter_of(settings: OtelSettings) -> SpanExporter:
    """Return the OTLP exporter for *settings*.

    :raises ModuleNotFoundError: it is not installed.
    """
    protocol = protocol_of(settings)
    name, extra = EXPORTERS[protocol]
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        text = f"protocol {protocol}: pip install 'servekit-otel[{extra}]'"
        raise ModuleNotFoundError(text, name=error.name) from error
    pass_encoded(module, is_parsed=extra == "grpc")
    found: Any = module.OTLPSpanExporter
    options: dict[str, Any] = {}
    if settings.endpoint:
        endpoint = settings.endpoint.rstrip("/")
        is_base = extra == "http" and not endpoint.endswith("/v1/traces")
        options["endpoint"] = f"{endpoint}/v1/traces" if is_base else endpoint
    if settings.headers:
        options["headers"] = {name.lower(): text for name, text in settings.headers.items()}
    exporter: SpanExporter = found(**options)
    return exporter


def pass_encoded(exporters: Any, *, is_parsed: bool) -> None:
    """Let the module *exporters* export an ``EncodedRequest`` unchanged.

    Connections, credentials, compression, timeouts and retries are up to the exporters. Only their
    encoder is too slow, and there is no other way past it.

    :param is_parsed: the exporter needs an object of protobuf.
    """
    encode = exporters.encode_spans
    if getattr(encode, "passes_encoded", False):
        return

    def encode_spans(spans: Any) -> Any:
        if not isinstance(spans, EncodedRequest):
            return encode(spans)
        return spans.parsed() if is_parsed else spans

    encode_spans.passes_encoded = True  # type: ignore[attr-defined]
    exporters.encode_spans = encode_spans


def resource_of(settings: OtelSettings) -> Resource:
    """Return what all spans of the server have in common."""
    own = {"host.name": socket.gethostname(), "service.version": servekit.__version__}
    found = Resource(own).merge(Resource.create())
    if settings.service_name:
        return found.merge(Resource({SERVICE_NAME: settings.service_name}))
    is_named = not str(found.attributes[SERVICE_NAME]).startswith("unknown_service")
    return found if is_named else found.merge(Resource({SERVICE_NAME: "servekit"}))
