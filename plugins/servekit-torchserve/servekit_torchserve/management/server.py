# SPDX-License-Identifier: Apache-2.0
"""The process: it listens at the addresses, and stops."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import gevent
from gevent.event import Event

from servekit_torchserve.management.access import ManagementAccess
from servekit_torchserve.management.connections import ClientLimits, LimitedServer
from servekit_torchserve.management.operations import ManagementOperations
from servekit_torchserve.management.upstream import MANAGE_SOCKET, Upstream
from servekit_torchserve.management.web import create_management, create_metrics

if TYPE_CHECKING:
    import argparse

    from flask import Flask

__all__ = ["serve"]


def serve(arguments: argparse.Namespace) -> None:
    """Serve until SIGTERM, and then what has begun.

    :raises OSError: an address is in use.
    """
    servers = [_listen(address, app, arguments) for address, app in _apps(arguments)]
    stopped = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        gevent.signal_handler(number, stopped.set)
    stopped.wait()
    for each in servers:
        each.close()
    gevent.joinall([gevent.spawn(each.stop, arguments.grace) for each in servers])


def _apps(arguments: argparse.Namespace) -> list[tuple[str, Flask]]:
    """Return the apps that are wanted, with their addresses."""
    clients = Upstream(arguments.clients)
    found = []
    if arguments.management:
        operations = ManagementOperations(
            Upstream(arguments.run_directory / MANAGE_SOCKET),
            arguments.model_store,
            is_model_api_on=arguments.model_api,
        )
        access = ManagementAccess(clients, needs_token=not arguments.no_token)
        found.append((arguments.management, create_management(operations, access)))
    if arguments.metrics:
        found.append((arguments.metrics, create_metrics(clients)))
    return found


def _listen(address: str, app: Flask, arguments: argparse.Namespace) -> LimitedServer:
    host, _, port = address.rpartition(":")
    limits = ClientLimits(*(getattr(arguments, name) for name in ClientLimits._fields))
    tls: dict[str, str | None] = {}
    if arguments.tls_certificate:
        tls = {"certfile": arguments.tls_certificate, "keyfile": arguments.tls_key or None}
    server = LimitedServer((host.strip("[]"), int(port)), app, limits, **tls)
    server.start()
    print(f"{app.name.rpartition('.')[2]} at {host}:{server.server_port}", flush=True)
    return server
