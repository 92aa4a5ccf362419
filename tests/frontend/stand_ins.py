# SPDX-License-Identifier: Apache-2.0
"""What a connection needs of a front-end, without a process."""

from dataclasses import replace

import gevent

from servekit.frontend.exchange.connections import OpenConnections
from servekit.frontend.exchange.date import HttpDate
from servekit.frontend.exchange.host import Host
from servekit.frontend.exchange.time_slices import TimeSlices
from servekit.frontend.http1.parser import RequestParser
from servekit.frontend.memory.pressure import Pressure
from servekit.settings import Settings


def make_host(handle, **changes) -> Host:
    """Return a host whose requests go to *handle*, and that has no model."""
    loop, settings = gevent.get_hub().loop, Settings()
    host = Host(
        settings=settings,
        loop=loop,
        date=HttpDate(),
        connections=OpenConnections(settings),
        pressure=Pressure(0, 1.0),
        slices=TimeSlices(loop),
        tls=None,
        handle=handle,
        find=lambda *_route: None,
        reads_body=lambda *_request: False,
        guard=None,
    )
    return replace(host, **changes)


def make_parser() -> RequestParser:
    """Return a parser without guard."""
    return RequestParser(Settings(), None, Pressure(0, 1.0))
