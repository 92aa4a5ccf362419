# SPDX-License-Identifier: Apache-2.0
"""The hooks of this plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servekit import hookimpl

if TYPE_CHECKING:
    from servekit.extension import ProcessOffer, Protocol, Routes, Server
    from servekit_oip.grpc.settings import OipSettings

__all__ = ["register_processes", "register_protocols", "register_routes", "register_settings"]


@hookimpl
def register_settings() -> type[OipSettings]:
    """Have an address for gRPC."""
    from servekit_oip.grpc.settings import OipSettings

    return OipSettings


@hookimpl
def register_processes(server: Server) -> list[ProcessOffer]:
    """Run what speaks gRPC, if it has an address."""
    from servekit_oip.grpc.offers import processes

    return processes(server, server.plugin_settings("oip"))


@hookimpl
def register_protocols(server: Server) -> list[Protocol]:
    """Answer at ``/v2``, and to the processes that speak gRPC."""
    from servekit_oip.protocol import OpenInference

    if not server.plugin_settings("oip").grpc:
        return [OpenInference(server)]
    from servekit_oip.grpc.protocol import GrpcInference

    return [OpenInference(server), GrpcInference()]


@hookimpl
def register_routes(server: Server) -> list[Routes]:
    """Answer at ``/v2/repository``, where requests wait for models to be loaded."""
    from servekit.extension import Routes
    from servekit_oip.repository import create_repository

    return [Routes(blueprint=create_repository(server), managed=["/v2/repository/"])]
