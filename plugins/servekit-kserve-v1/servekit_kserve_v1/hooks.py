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
    """Answer below ``/v1/models``."""
    from servekit_kserve_v1.protocol import KServeV1

    return [KServeV1(server)]


@hookimpl
def register_routes() -> list[Routes]:
    """Say at ``/`` that the server is alive."""
    from servekit.extension import Routes
    from servekit_kserve_v1.root import create_root

    return [Routes(blueprint=create_root())]
