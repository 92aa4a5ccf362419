# SPDX-License-Identifier: Apache-2.0
"""The hooks of this plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servekit import hookimpl

if TYPE_CHECKING:
    from servekit.extension import Protocol, Routes, Server, TransportOffer
    from servekit_oip.grpc.settings import OipSettings

__all__ = ["register_protocols", "register_routes", "register_settings", "register_transports"]


@hookimpl
def register_settings() -> type[OipSettings]:
    """Return the settings: an address for gRPC."""
    from servekit_oip.grpc.settings import OipSettings

    return OipSettings


@hookimpl
def register_transports() -> list[TransportOffer]:
    """Speak gRPC, if it has an address."""
    from servekit.extension import TransportOffer

    return [
        TransportOffer(
            alpn="h2",
            preface=b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            target="servekit_oip.grpc.http2:GrpcConnection",
            address_setting="grpc",
            title="gRPC",
        )
    ]


@hookimpl
def register_protocols(server: Server) -> list[Protocol]:
    """Answer at ``/v2``, and the inferences of gRPC."""
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

    blueprint, paths = create_repository(server), ["/v2/repository/"]
    if server.plugin_settings("oip").open_repository:
        return [Routes(blueprint=blueprint, own_access=paths)]
    return [Routes(blueprint=blueprint, managed=paths)]
