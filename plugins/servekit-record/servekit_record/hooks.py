# SPDX-License-Identifier: Apache-2.0
"""The hooks. Until the operator allows recordings there is no middleware, and no cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from servekit import hookimpl
from servekit.extension import Command, Routes

if TYPE_CHECKING:
    from pathlib import Path

    from servekit.extension import Middleware, Server

__all__ = ["register_commands", "register_middleware", "register_routes", "register_settings"]


class RecordSettings(Struct):
    """``[plugins.record]``."""

    allow: Annotated[bool, Meta(description="whether operators may record requests")] = False


@hookimpl
def register_settings() -> type[RecordSettings]:
    """Offer ``allow``."""
    return RecordSettings


@hookimpl
def register_middleware(server: Server) -> list[Middleware]:
    """Copy calls while a recording runs, if recordings are allowed."""
    from servekit_record.recorder import CallRecorder

    return [CallRecorder(server, _directory(server))] if _is_allowed(server) else []


@hookimpl
def register_routes(server: Server) -> list[Routes]:
    """Let operators begin, fetch and end recordings, if they are allowed."""
    from servekit_record.routes import create_blueprint

    if not _is_allowed(server):
        return []
    return [Routes(blueprint=create_blueprint(server, _directory(server)), listener="management")]


@hookimpl
def register_commands() -> list[Command]:
    """Offer ``servekit record`` and ``servekit replay``."""
    return [
        Command(
            "record",
            "record requests of a running server, and their responses",
            "servekit_record.record_command:configure",
            asks_server=True,
        ),
        Command(
            "replay",
            "send recorded requests again, and compare the responses",
            "servekit_record.replay_command:configure",
        ),
    ]


def _is_allowed(server: Server) -> bool:
    return bool(server.plugin_settings("record").allow)


def _directory(server: Server) -> Path:
    return server.run_directory / "recordings"
