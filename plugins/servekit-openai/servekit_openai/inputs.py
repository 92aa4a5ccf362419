# SPDX-License-Identifier: Apache-2.0
"""Requests of OpenAI's clients, as services get them. Unknown members are ignored.

A service that reads further members subclasses one of these and adds them, with defaults.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

__all__ = [
    "ChatMessage",
    "ChatRequest",
    "ChunkOptions",
    "CompletionRequest",
    "EmbeddingInput",
    "EmbeddingsBody",
    "Function",
    "GenerationRequest",
    "Tool",
]

#: text, one after another ``{"type": "text", "text": ...}`` and parts of other types
Content = str | list[dict[str, Any]] | None
Choices = Annotated[int, Meta(ge=1, le=128)]


class ChunkOptions(Struct):
    """``stream_options``."""

    include_usage: bool | None = None


class GenerationRequest(Struct, kw_only=True):
    """The members that requests for chats and for completions share."""

    model: str
    n: Choices | None = None  #: how many choices; see docs/openai.md
    stream: bool | None = None
    stream_options: ChunkOptions | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    user: str | None = None

    @property
    def stops(self) -> list[str]:
        """``stop`` as a list."""
        return [self.stop] if isinstance(self.stop, str) else self.stop or []


class ChatMessage(Struct, kw_only=True):
    """One message of a conversation."""

    role: str  #: ``system``, ``developer``, ``user``, ``assistant``, ``tool`` ...
    content: Content = None
    name: str | None = None
    tool_calls: list[dict[str, Any]] | None = None  #: for the role ``assistant``, in OpenAI's form
    tool_call_id: str | None = None  #: the call that this message of a tool answers

    @property
    def text(self) -> str:
        """The text of ``content``, without parts of other types."""
        if self.content is None or isinstance(self.content, str):
            return self.content or ""
        texts = [part.get("text") for part in self.content]
        return "".join(text for text in texts if isinstance(text, str))


class Function(Struct, kw_only=True):
    """A function that the model may call."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None  #: JSON Schema
    strict: bool | None = None


class Tool(Struct, kw_only=True):
    """A tool that the model may use."""

    type: str = "function"
    function: Function | None = None


class ChatRequest(GenerationRequest, kw_only=True):
    """The body of ``POST /v1/chat/completions``."""

    messages: Annotated[list[ChatMessage], Meta(min_length=1)]
    max_completion_tokens: int | None = None
    tools: list[Tool] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    response_format: dict[str, Any] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    reasoning_effort: str | None = None

    @property
    def token_limit(self) -> int | None:
        """``max_completion_tokens``, or ``max_tokens``, which it replaces."""
        limit = self.max_completion_tokens
        return self.max_tokens if limit is None else limit


class CompletionRequest(GenerationRequest, kw_only=True):
    """The body of ``POST /v1/completions``, with one of its prompts."""

    prompt: str | list[int]  #: text, or token ids
    suffix: str | None = None
    echo: bool | None = None
    best_of: int | None = None
    logprobs: int | None = None


class EmbeddingInput(Struct, kw_only=True):
    """One input of ``POST /v1/embeddings``, with the other members of the body."""

    input: str | list[int]  #: text, or token ids
    #: wanted size of the vector. Longer vectors are cut and scaled to length 1 if the service
    #: returns them all the same
    dimensions: int | None = None
    user: str | None = None


class EmbeddingsBody(Struct, kw_only=True):
    """The members of ``POST /v1/embeddings`` that the plugin reads."""

    model: str
    encoding_format: str | None = None
    dimensions: Annotated[int, Meta(ge=1)] | None = None
