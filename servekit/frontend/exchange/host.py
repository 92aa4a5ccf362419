# SPDX-License-Identifier: Apache-2.0
"""The parts of a front-end that all connections of one listener share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest
    from servekit.frontend.exchange.connections import OpenConnections
    from servekit.frontend.exchange.date import HttpDate
    from servekit.frontend.exchange.event_loop import EventLoop
    from servekit.frontend.exchange.protocols import Find, Guard, ReadsBody
    from servekit.frontend.exchange.time_slices import TimeSlices
    from servekit.frontend.memory.pressure import Pressure
    from servekit.frontend.tracing.traces import Traces
    from servekit.settings import Settings

__all__ = ["Host"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One for the listener of clients, and one for each listener of management."""

    settings: Settings
    loop: EventLoop
    date: HttpDate
    connections: OpenConnections
    pressure: Pressure
    slices: TimeSlices
    tls: ssl.SSLContext | None  #: ``None``: connections are in the clear
    handle: Callable[[Exchange, HttpRequest], None]  #: answers a request, whole or refused
    find: Find  #: who predicts
    reads_body: ReadsBody  #: whether to ask for the body of another request
    guard: Callable[[Exchange], Guard] | None  #: makes what judges the requests of an exchange
    traces: Traces | None = None  #: of requests that arrive in pieces
