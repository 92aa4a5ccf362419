# SPDX-License-Identifier: Apache-2.0
"""The hooks of the console."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from servekit import hookimpl

if TYPE_CHECKING:
    from servekit.extension import Routes, Server

__all__ = ["ConsoleSettings", "register_routes", "register_settings"]


class ConsoleSettings(Struct, frozen=True):
    """``[plugins.console]``."""

    enabled: Annotated[bool, Meta(description="serve the pages below /console/")] = True


@hookimpl
def register_settings() -> type[ConsoleSettings]:
    """Have settings."""
    return ConsoleSettings


@hookimpl
def register_routes(server: Server) -> list[Routes]:
    """Offer ``/console/``, and lead browsers there from ``/``."""
    from servekit.extension import Routes
    from servekit_console.blueprint import create_blueprint

    if not server.plugin_settings("console").enabled:
        return []
    return [
        Routes(
            blueprint=create_blueprint(server),
            links={"console": "/console/"},
            home="/console/",
            own_access=["/console/"],
        )
    ]
