# SPDX-License-Identifier: Apache-2.0
"""The hooks of this plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servekit import hookimpl

if TYPE_CHECKING:
    from servekit.extension import Protocol, Routes, Server

__all__ = ["register_protocols", "register_routes"]


@hookimpl
def register_protocols(server: Server) -> list[Protocol]:
    """Answer at ``/v2``."""
    from servekit_oip.protocol import OpenInference

    return [OpenInference(server)]


@hookimpl
def register_routes(server: Server) -> list[Routes]:
    """Answer at ``/v2/repository``, where requests wait for models to be loaded."""
    from servekit.extension import Routes
    from servekit_oip.repository import create_repository

    return [Routes(blueprint=create_repository(server), managed=["/v2/repository/"])]
