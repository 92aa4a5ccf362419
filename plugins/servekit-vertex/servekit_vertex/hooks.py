# SPDX-License-Identifier: Apache-2.0
"""The hooks of this plugin. Without the variables of Vertex, they add only a command."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from servekit import hookimpl
from servekit_vertex.environment import MODEL, VertexEnvironment

if TYPE_CHECKING:
    from servekit.extension import Command, Protocol, Server

__all__ = ["register_commands", "register_protocols", "register_settings"]


class VertexSettings(Struct):
    """The settings of this plugin."""

    model: Annotated[str, Meta(description="which of several models answers")] = ""


@hookimpl
def register_settings() -> type[VertexSettings]:
    """Return the settings: a name for the model that answers."""
    return VertexSettings


@hookimpl
def register_commands() -> list[Command]:
    """Offer ``servekit vertex``."""
    from servekit.extension import Command

    summary = "start in a container of Vertex AI, with the models in AIP_STORAGE_URI"
    return [Command("vertex", summary, "servekit_vertex.command:vertex")]


@hookimpl
def register_protocols(server: Server) -> list[Protocol]:
    """Answer at the routes that Vertex names."""
    platform = VertexEnvironment.of(os.environ)
    if platform is None:
        return []
    from servekit.errors import PluginError
    from servekit_vertex.protocol import Vertex

    model, models = server.plugin_settings("vertex").model, server.settings.models
    if len(models) > 1 and not model:
        raise PluginError(f"{len(models)} models, and {MODEL} does not say which one answers")
    return [Vertex(server, platform, model)]
