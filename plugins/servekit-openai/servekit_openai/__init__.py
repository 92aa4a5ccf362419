# SPDX-License-Identifier: Apache-2.0
"""The API of OpenAI: base classes for services, and the types of their inputs and outputs.

The hook module is imported in every process, so each of these is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from servekit_openai.inputs import (
        ChatMessage,
        ChatRequest,
        CompletionRequest,
        EmbeddingInput,
        Function,
        Tool,
    )
    from servekit_openai.outputs import AssistantMessage, Completion, Embedding, ToolCall, Usage
    from servekit_openai.services import ChatService, CompletionService, EmbeddingService

__all__ = [
    "AssistantMessage",
    "ChatMessage",
    "ChatRequest",
    "ChatService",
    "Completion",
    "CompletionRequest",
    "CompletionService",
    "Embedding",
    "EmbeddingInput",
    "EmbeddingService",
    "Function",
    "Tool",
    "ToolCall",
    "Usage",
]

MODULES = {
    ".inputs": (
        *("ChatMessage", "ChatRequest", "CompletionRequest", "EmbeddingInput"),
        *("Function", "Tool"),
    ),
    ".outputs": ("AssistantMessage", "Completion", "Embedding", "ToolCall", "Usage"),
    ".services": ("ChatService", "CompletionService", "EmbeddingService"),
}


def __getattr__(name: str) -> Any:
    for module, names in MODULES.items():
        if name in names:
            return getattr(import_module(module, __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
