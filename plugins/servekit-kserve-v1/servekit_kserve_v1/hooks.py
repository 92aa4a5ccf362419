# SPDX-License-Identifier: Apache-2.0
"""The hook of this plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servekit import hookimpl

if TYPE_CHECKING:
    from servekit.extension import Protocol, Server

__all__ = ["register_protocols"]


@hookimpl
def register_protocols(server: Server) -> list[Protocol]:
    """Answer below ``/v1/models``."""
    from servekit_kserve_v1.protocol import KServeV1

    return [KServeV1(server)]
