# SPDX-License-Identifier: Apache-2.0
"""The hooks of this plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servekit import hookimpl

if TYPE_CHECKING:
    from servekit.extension import Protocol, Server

__all__ = ["register_protocols", "register_services", "register_settings"]


@hookimpl
def register_protocols(server: Server) -> list[Protocol]:
    """Answer below ``/v1``."""
    from servekit_openai.protocol import ModelsPath, TaskPath
    from servekit_openai.tasks import CHAT, COMPLETION, EMBEDDING

    worker = "servekit_openai.envelopes"
    vectors = {} if server.plugin_settings("openai").base64 else {"encoding": "float"}
    return [
        TaskPath(server, "/v1/chat/completions", CHAT, f"{worker}.chat:Chat"),
        TaskPath(server, "/v1/completions", COMPLETION, f"{worker}.completion:Completions"),
        TaskPath(server, "/v1/embeddings", EMBEDDING, f"{worker}.embedding:Embeddings", vectors),
        ModelsPath(server),
    ]


@hookimpl
def register_settings() -> type:
    """Offer ``base64``."""
    from servekit_openai.settings import OpenAISettings

    return OpenAISettings


@hookimpl
def register_services() -> dict[str, str]:
    """Offer ``openai-proxy``."""
    return {"openai-proxy": "servekit_openai.proxy.service:OpenAIProxy"}
