# SPDX-License-Identifier: Apache-2.0
"""Requests for services that generate text, and their outputs.

Members are those of OpenAI's API, whose clients servekit-openai lets in. Unknown ones are ignored.
"""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from msgspec import Meta, Struct, to_builtins

from servekit import InputError

__all__ = ["ChatPrompt", "Count", "GenerationPrompt", "LastPiece", "TextPrompt", "refusal"]

Limit = Annotated[int, Meta(ge=1)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]


class GenerationPrompt(Struct, kw_only=True):
    """The members that chats and completions share."""

    max_tokens: Limit | None = None  #: default: until the model ends, or its context is full
    #: 0 is always the likeliest token; default: that of ``generation_config.json``, otherwise 0
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=0)] | None = None  #: 0 is all tokens; OpenAI does not have it
    seed: int | None = None  #: the same seed draws the same answer
    stop: str | list[str] | None = None  #: the answer ends before any of these
    presence_penalty: Penalty = 0.0
    frequency_penalty: Penalty = 0.0
    logit_bias: dict[str, Annotated[float, Meta(ge=-100, le=100)]] | None = None  #: by token id

    @property
    def stops(self) -> list[str]:
        """The strings in ``stop``."""
        found = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return [text for text in found if text]

    @property
    def limit(self) -> int | None:
        """The most tokens of the answer."""
        return self.max_tokens

    def check(self) -> None:
        """Refuse what this service does not do, rather than ignore it.

        :raises InputError: a member asks for it.
        """


class Turn(Struct, kw_only=True, omit_defaults=True):
    """A message of a conversation, as templates of chats get it."""

    role: str
    content: str | list[dict[str, Any]] | None = None
    name: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None


class ChatPrompt(GenerationPrompt, kw_only=True):
    """An input of the service ``huggingface-chat``."""

    messages: Annotated[list[Turn], Meta(min_length=1)]
    max_completion_tokens: Limit | None = None
    logprobs: bool | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None

    @property
    def limit(self) -> int | None:
        """``max_completion_tokens``, or ``max_tokens``, which it replaces."""
        return self.max_completion_tokens or self.max_tokens

    def check(self) -> None:
        """Refuse log-probabilities, calls of tools and JSON by force."""
        if self.logprobs:
            raise refusal("logprobs", "this model does not return them")
        if self.tools and self.tool_choice != "none":
            raise refusal("tools", "this model does not call tools")
        if (self.response_format or {}).get("type", "text") != "text":
            raise refusal("response_format", "this model answers with text only")

    def turns(self) -> list[dict[str, Any]]:
        """Return the messages, each content as one text.

        :raises InputError: a part is not text.
        """
        return [
            {**to_builtins(turn), "content": text_of(turn, f"messages[{index}].content")}
            for index, turn in enumerate(self.messages)
        ]


class TextPrompt(GenerationPrompt, kw_only=True):
    """An input of the service ``huggingface-completion``."""

    prompt: str | list[int]  #: text, or token ids
    logprobs: int | None = None
    echo: bool | None = None
    suffix: str | None = None
    best_of: int | None = None

    def check(self) -> None:
        """Refuse log-probabilities, echoes, insertions and choices among several answers."""
        asked = {
            "logprobs": self.logprobs,
            "echo": self.echo,
            "suffix": self.suffix,
            "best_of": (self.best_of or 1) > 1,
        }
        for name, value in asked.items():
            if value:
                raise refusal(name, "not supported by this model")


class Count(TypedDict):
    """Tokens of a prompt and of its answer."""

    prompt_tokens: int
    completion_tokens: int


class LastPiece(TypedDict, total=False):
    """The last piece of an answer; those before it are strings."""

    content: str  #: text of a chat
    text: str  #: text of a completion
    finish_reason: str  #: ``stop`` or ``length``
    usage: Count


def text_of(turn: Turn, place: str) -> str | None:
    """Return the content of *turn* as one text.

    :raises InputError: a part is not text.
    """
    if turn.content is None or isinstance(turn.content, str):
        return turn.content
    texts = [part.get("text") for part in turn.content if part.get("type") == "text"]
    if len(texts) < len(turn.content) or not all(isinstance(text, str) for text in texts):
        raise refusal(place, "this model takes text only")
    return "".join(map(str, texts))


def refusal(field: str, message: str) -> InputError:
    """Return the error for one member of a request."""
    return InputError(f"{field}: {message}", [{"field": field, "message": message}])
