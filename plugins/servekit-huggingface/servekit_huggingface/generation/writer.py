# SPDX-License-Identifier: Apache-2.0
"""Continuous batching: a step adds a token to every answer; answers come and go between steps."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from servekit_huggingface.generation.rows import SequenceRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from servekit_huggingface.generation.answer import GeneratedAnswer
    from servekit_huggingface.generation.rows import CausalModel

__all__ = ["AnswerWriter"]


class AnswerWriter:
    """Writes many answers at once with one model."""

    def __init__(self, model: CausalModel, prefill_tokens: int) -> None:
        """Write with *model*.

        :param prefill_tokens: of prompts that are read in one step.
        """
        self._model, self._prefill_tokens = model, prefill_tokens
        self._reset()

    def _reset(self) -> None:
        """Forget all answers."""
        self._waiting: list[GeneratedAnswer] = []  #: in the order of their arrival
        self._begun: SequenceRows | None = None  #: of the first one, if it is read in parts
        self._written: list[GeneratedAnswer] = []  #: the answer of each row
        self._rows = SequenceRows(self._model)

    def admit(self, answer: GeneratedAnswer) -> None:
        """Begin *answer* in one of the next steps."""
        self._waiting.append(answer)

    def evict(self, answer: GeneratedAnswer) -> None:
        """Free what *answer* holds, whether it has ended or not."""
        if answer in self._waiting:
            if answer is self._waiting[0]:
                self._begun = None
            self._waiting.remove(answer)
        elif answer in self._written:
            rows = [row for row, each in enumerate(self._written) if each is not answer]
            self._written = [self._written[row] for row in rows]
            self._rows.keep(rows)

    def step(self) -> None:
        """Add a token to each answer whose prompt has been read, and read more of prompts.

        An error ends all answers.
        """
        try:
            if self._written:
                scores = self._rows.read([answer.tokens[-1:] for answer in self._written])
                _add_tokens(self._written, scores)
            if self._waiting:
                self._read_prompts()
        except BaseException:
            self._reset()
            raise

    def _read_prompts(self) -> None:
        """Read prompts that fit into one step together, or a part of a longer one."""
        group = self._next_group()
        first = group[0]
        rows = self._begun or SequenceRows(self._model)
        ends = [min(len(each.prompt), each.read + self._prefill_tokens) for each in group]
        scores = rows.read(
            [each.prompt[each.read : end] for each, end in zip(group, ends, strict=True)]
        )
        for answer, end in zip(group, ends, strict=True):
            answer.read = end
        if first.read < len(first.prompt):
            self._begun = rows
            return
        self._begun = None
        del self._waiting[: len(group)]
        _add_tokens(group, scores)
        self._rows.join(rows)
        self._written += group

    def _next_group(self) -> list[GeneratedAnswer]:
        """Return the first that wait, as many as can be read in one step; at least one."""
        if self._begun is not None:
            return self._waiting[:1]
        sizes = [len(answer.prompt) for answer in self._waiting]
        longest = [max(sizes[: count + 1]) * (count + 1) for count in range(len(sizes))]
        fitting = [*takewhile(lambda size: size <= self._prefill_tokens, longest)]
        return self._waiting[: max(1, len(fitting))]


def _add_tokens(answers: Sequence[GeneratedAnswer], scores: Tensor) -> None:
    """Add a token to each of *answers* by its row of *scores*."""
    likeliest: list[int] = scores.argmax(dim=-1).tolist()
    for row, answer in enumerate(answers):
        answer.add(likeliest[row], scores[row])
