# SPDX-License-Identifier: Apache-2.0
"""The hooks of this plugin. Unless ``serve`` enables it, they add only that command."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from servekit import hookimpl
from servekit_sagemaker.environment import MODEL, SageMakerEnvironment

if TYPE_CHECKING:
    from servekit.extension import Command, Protocol, Routes, Server

__all__ = ["register_commands", "register_protocols", "register_routes", "register_settings"]


class SageMakerSettings(Struct):
    """The settings of this plugin."""

    enabled: Annotated[
        bool, Meta(description="answer at the paths of SageMaker; the command serve sets it")
    ] = False
    model: Annotated[str, Meta(description="which of several models answers")] = ""


@hookimpl
def register_settings() -> type[SageMakerSettings]:
    """Return the settings; the plugin is off by default."""
    return SageMakerSettings


@hookimpl
def register_commands() -> list[Command]:
    """Offer ``servekit serve``, for images whose entry point is ``servekit``."""
    from servekit.extension import Command

    summary = "start as SageMaker does, with the models in /opt/ml/model"
    return [Command("serve", summary, "servekit_sagemaker.command:serve")]


@hookimpl
def register_protocols(server: Server) -> list[Protocol]:
    """Answer ``/ping`` and ``/invocations``, and the models of a multi-model endpoint."""
    own, models = server.plugin_settings("sagemaker"), server.settings.models
    if not own.enabled:
        return []
    from servekit.errors import PluginError
    from servekit_sagemaker.protocol import SageMaker

    if len(models) > 1 and not own.model:
        raise PluginError(f"{len(models)} models, and {MODEL} does not say which one answers")
    return [SageMaker(server, SageMakerEnvironment.of(os.environ), own.model)]


@hookimpl
def register_routes(server: Server) -> list[Routes]:
    """Load, list and unload the models of a multi-model endpoint."""
    platform = SageMakerEnvironment.of(os.environ)
    if not (server.plugin_settings("sagemaker").enabled and platform.is_multi_model):
        return []
    from servekit.extension import Routes
    from servekit_sagemaker.multi_model import create_blueprint

    return [Routes(blueprint=create_blueprint(server, platform))]
