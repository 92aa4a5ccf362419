# SPDX-License-Identifier: Apache-2.0
"""The hooks of the console."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from servekit import hookimpl

if TYPE_CHECKING:
    from servekit.extension import Observer, RequestTraced, Routes, Server
    from servekit_console.collector import Collector

__all__ = [
    "ConsoleSettings",
    "observer_started",
    "observer_stopping",
    "register_routes",
    "register_settings",
    "request_traced",
]

_collectors: list[Collector] = []  #: one, in the observer


class ConsoleSettings(Struct, frozen=True):
    """``[plugins.console]``."""

    enabled: Annotated[bool, Meta(description="serve the pages below /console/")] = True


@hookimpl
def register_settings() -> type[ConsoleSettings]:
    """Return the settings."""
    return ConsoleSettings


@hookimpl
def register_routes(server: Server) -> list[Routes]:
    """Offer ``/console/``, and lead browsers there from ``/``."""
    from servekit.extension import Routes
    from servekit_console.blueprint import create_blueprint, create_samples

    return [
        Routes(
            blueprint=create_blueprint(server),
            links={"console": "/console/"},
            home="/console/",
            own_access=["/console/"],
        ),
        Routes(blueprint=create_samples(server), listener="management"),
    ]


@hookimpl
def observer_started(observer: Observer) -> None:
    """Begin to keep the history."""
    from servekit_console.collector import Collector

    collector = Collector(observer.run_directory)
    collector.start()
    _collectors.append(collector)


@hookimpl
def observer_stopping() -> None:
    """Leave the history to the next observer."""
    for collector in _collectors:
        collector.write()


@hookimpl
def request_traced(event: RequestTraced) -> None:
    """Keep a slow request."""
    for collector in _collectors:
        collector.add_trace(event)
