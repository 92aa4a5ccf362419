# SPDX-License-Identifier: Apache-2.0
"""Outputs of services that say more than a string or a vector."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

__all__ = ["AssistantMessage", "Completion", "Embedding", "ToolCall", "Usage"]


class Usage(Struct):
    """Tokens, as the service has counted them."""

    prompt_tokens: int
    completion_tokens: int


class ToolCall(Struct):
    """A call of a function that the model asks for.

    In a stream, a call with a ``name`` begins, and those without one add to its ``arguments``.
    """

    name: str = ""
    arguments: str = ""  #: JSON
    id: str = ""  #: "" has one made


class AssistantMessage(Struct, kw_only=True):
    """The message of a chat service, or one piece of it.

    Pieces are joined: the strings, tool calls and logprobs one after another. The last finish
    reason and the last usage are used.
    """

    content: str | None = None
    tool_calls: list[ToolCall] = field(default_factory=list)
    refusal: str | None = None
    reasoning_content: str | None = None  #: a member that OpenAI does not have, and engines do
    logprobs: list[dict[str, Any]] = field(default_factory=list)  #: of tokens of ``content``
    finish_reason: str = ""  #: "" is ``tool_calls`` if there are any, otherwise ``stop``
    usage: Usage | None = None  #: ``None`` is estimated


class Completion(Struct, kw_only=True):
    """The text of a completion service, or one piece of it.

    Pieces are joined, text and lists in ``logprobs``; the last finish reason and usage are used.
    """

    text: str = ""
    logprobs: dict[str, Any] | None = None  #: as OpenAI writes them
    finish_reason: str = ""  #: "" is ``stop``
    usage: Usage | None = None  #: ``None`` is estimated


class Embedding(Struct):
    """A vector whose input has been counted."""

    vector: Any  #: an array, or a list of floats
    tokens: int
