# SPDX-License-Identifier: Apache-2.0
"""Collectors that speak OTLP, over HTTP and over gRPC."""

from __future__ import annotations

import gzip
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Event, Thread
from typing import TYPE_CHECKING, Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WAIT_S = 30.0


class Collector:
    """Keeps the spans that it gets, each with its resource as ``resource_attributes``."""

    def __init__(self) -> None:
        self.url = ""
        self.spans: list[Any] = []
        self.headers: dict[str, str] = {}
        self.resource: dict[str, Any] = {}
        self.goes_on = Event()  #: it answers
        self.goes_on.set()
        self._changed = Condition()

    def take(self, request: Any, headers: dict[str, str]) -> None:
        """Take an ``ExportTraceServiceRequest``."""
        self.goes_on.wait(WAIT_S)
        with self._changed:
            self.headers = headers
            for each in request.resource_spans:
                self.resource = values_of(each.resource)
                self.spans += [span for scope in each.scope_spans for span in scope.spans]
            self._changed.notify_all()

    def wait_for(self, is_enough: Callable[[list[Any]], bool]) -> list[Any]:
        """Return the spans once *is_enough* is true of them."""
        with self._changed:
            found = self._changed.wait_for(lambda: is_enough(self.spans), WAIT_S)
            assert found, [each.name for each in self.spans]
            return list(self.spans)


def values_of(span: Any) -> dict[str, Any]:
    """Return the attributes of a span, a link or a resource."""
    return {
        each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes
    }


@contextmanager
def http_collector() -> Iterator[Collector]:
    """Listen on a free port of the loopback interface."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            assert self.path == "/v1/traces"
            message = trace_service_pb2.ExportTraceServiceRequest.FromString(body)
            collector.take(message, {name.lower(): text for name, text in self.headers.items()})
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    collector.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        collector.goes_on.set()
        server.shutdown()
        server.server_close()
        thread.join(WAIT_S)


@contextmanager
def grpc_collector() -> Iterator[Collector]:
    """Listen on a free port of the loopback interface."""
    collector = Collector()

    class Servicer(trace_service_pb2_grpc.TraceServiceServicer):
        def Export(self, request, context):  # noqa: N802 - the name of the method in the protocol
            collector.take(request, dict(context.invocation_metadata()))
            return trace_service_pb2.ExportTraceServiceResponse()

    server = grpc.server(ThreadPoolExecutor(2))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Servicer(), server)
    collector.url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield collector
    finally:
        collector.goes_on.set()
        server.stop(0).wait(WAIT_S)
