# SPDX-License-Identifier: Apache-2.0
"""The hook that adds the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servekit import hookimpl

if TYPE_CHECKING:
    from servekit.extension import Routes, Server

__all__ = ["register_routes"]


@hookimpl
def register_routes(server: Server) -> list[Routes]:  # noqa: ARG001 - pluggy passes it
    """Offer ``/docs``."""
    from servekit.extension import Routes
    from servekit_docs.page import create_blueprint

    return [Routes(blueprint=create_blueprint(), links={"docs": "/docs"}, pages={"API": "/docs"})]
