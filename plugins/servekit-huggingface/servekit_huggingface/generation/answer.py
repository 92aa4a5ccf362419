# SPDX-License-Identifier: Apache-2.0
"""The slot of a request: an answer that is being written."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

    from torch import Tensor

    from servekit_huggingface.generation.sampling import Sampler
    from servekit_huggingface.generation.text_stream import TextStream

__all__ = ["GeneratedAnswer", "Written"]


class Written(NamedTuple):
    """The outcome of one step for an answer."""

    text: str = ""
    finish_reason: str = ""  #: "" until it ends
    tokens: int = 0
    error: Exception | None = None  #: why it cannot continue


class GeneratedAnswer:
    """The tokens of a prompt, and those that have been written after it."""

    def __init__(
        self,
        prompt: list[int],
        limit: int,
        *,
        ends: Collection[int],
        sampler: Sampler,
        text: TextStream,
    ) -> None:
        """Wait to be written.

        :param limit: the most tokens of the answer.
        :param ends: tokens that end it and have no text.
        """
        self.prompt, self.limit = prompt, limit
        self.read = 0  #: tokens of the prompt that the model has read
        self.tokens: list[int] = []
        self._ends, self._sampler, self._text = ends, sampler, text
        self._news = Written()

    def add(self, likeliest: int, scores: Tensor) -> None:
        """Write a token. An error ends this answer only.

        :param scores: of all tokens, ``[vocabulary]``.
        """
        try:
            token = likeliest
            if not self._sampler.is_plain:
                token = self._sampler.choose(scores.cpu(), self.prompt, self.tokens)
            self._write(token)
        except Exception as error:  # noqa: BLE001 - such as chances that are not numbers
            self._news = Written(error=error)

    def _write(self, token: int) -> None:
        self.tokens.append(token)
        text = "" if token in self._ends else self._text.add(token)
        reason = ""
        if token in self._ends or self._text.has_stopped:
            reason = "stop"
        elif len(self.tokens) >= self.limit:
            reason = "length"
        if reason and not self._text.has_stopped:
            text += self._text.rest()
            reason = "stop" if self._text.has_stopped else reason
        self._news = Written(text, reason, tokens=1)

    def take(self) -> Written:
        """Return what has been written since the last call."""
        news, self._news = self._news, Written()
        return news
