# SPDX-License-Identifier: Apache-2.0
"""The hooks of this plugin."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from servekit import hookimpl

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from servekit.extension import Observer, RequestTraced, Server, ServiceSpan, TraceSampling
    from servekit_otel.exporting import TraceExport
    from servekit_otel.settings import OtelSettings

__all__: list[str] = []

_exports: list[TraceExport] = []  #: in the observer


@hookimpl
def register_settings() -> type[OtelSettings]:
    """Return the settings ``[plugins.otel]``."""
    from servekit_otel.settings import OtelSettings

    return OtelSettings


@hookimpl
def trace_sampler(server: Server) -> TraceSampling:
    """Return the share of the requests to trace. Runs in: front-end, if there is a collector."""
    from servekit_otel.settings import sampling_of

    return sampling_of(server.plugin_settings("otel"))


@hookimpl
def observer_started(observer: Observer) -> None:
    """Begin to export. Without a collector, the observer leaves this plugin out."""
    from servekit_otel.exporting import TraceExport

    _exports.append(TraceExport(observer.plugin_settings("otel")))


@hookimpl
def request_traced(event: RequestTraced) -> None:
    """Export a request as spans."""
    for export in _exports:
        export.add(event)


@hookimpl
def observer_stopping() -> None:
    """Export the waiting spans."""
    for export in _exports:
        export.end()


@hookimpl
def enter_span(span: ServiceSpan) -> AbstractContextManager[object] | None:
    """Make *span* current for OpenTelemetry, if anything uses that. Runs in: worker."""
    if "opentelemetry.trace" not in sys.modules:
        return None
    from servekit_otel.worker import entered

    return entered(span)
