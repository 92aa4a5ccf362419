# SPDX-License-Identifier: Apache-2.0
"""``/v1/completions``: prompts in, their continuations out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from servekit_openai.envelopes.choices import ChoiceProgress, estimate_tokens
from servekit_openai.envelopes.logprobs import finite, joined_logprobs
from servekit_openai.envelopes.prompts import prompts_in
from servekit_openai.envelopes.text import TextEnvelope
from servekit_openai.inputs import CompletionRequest
from servekit_openai.outputs import Completion
from servekit_openai.tasks import COMPLETION

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Completions"]


class Completions(TextEnvelope[CompletionRequest, Completion]):
    """Makes a ``CompletionRequest`` of each prompt; writes ``text_completion``."""

    task = COMPLETION
    kind = CompletionRequest
    prefix = "cmpl-"
    whole = chunk = "text_completion"

    def inputs_of(self, body: dict[str, Any]) -> list[Any]:
        """Return an input for each prompt in *body*."""
        return [{**body, "prompt": prompt} for prompt in prompts_in(body, "prompt")]

    def estimate(self, asked: CompletionRequest, inputs: Sequence[Any]) -> int:  # noqa: ARG002
        """Return about how many tokens the prompts have."""
        prompts = [each["prompt"] for each in inputs]
        return sum(
            estimate_tokens(prompt) if isinstance(prompt, str) else len(prompt)
            for prompt in prompts
        )

    def output_of(self, output: Any) -> Completion:
        """Return an *output* as an object."""
        if isinstance(output, str):
            return Completion(text=output)
        return msgspec.convert(output, Completion)

    def join(self, outputs: Sequence[Any]) -> Completion:
        """Return the text of which *outputs* are the pieces."""
        pieces = [self.output_of(output) for output in outputs]
        backwards = pieces[::-1]
        return Completion(
            text="".join(piece.text for piece in pieces),
            logprobs=joined_logprobs(piece.logprobs for piece in pieces),
            finish_reason=next((p.finish_reason for p in backwards if p.finish_reason), ""),
            usage=next((piece.usage for piece in backwards if piece.usage), None),
        )

    def is_bare(self, piece: Completion) -> bool:
        """Whether *piece* has no content."""
        return not piece.text and piece.logprobs is None

    def size(self, piece: Completion) -> int:
        """Return how many bytes of text *piece* has."""
        return len(piece.text.encode())

    def choice(self, index: int, answer: Completion) -> dict[str, Any]:
        """Return the choice with the whole text."""
        reason = answer.finish_reason or "stop"
        return choice_object(index, answer.text, answer.logprobs, reason)

    def delta(self, index: int, piece: Completion, progress: ChoiceProgress) -> dict[str, Any]:  # noqa: ARG002
        """Return what *piece* adds to the text."""
        return choice_object(index, piece.text, piece.logprobs, None)

    def finish(self, index: int, progress: ChoiceProgress) -> dict[str, Any]:
        """Return why the text ends."""
        return choice_object(index, "", None, progress.finish_reason or "stop")


def choice_object(
    index: int, text: str, logprobs: dict[str, Any] | None, reason: str | None
) -> dict[str, Any]:
    """Return a choice as OpenAI writes it."""
    return {
        "text": text,
        "index": index,
        "logprobs": finite(logprobs),
        "finish_reason": reason,
    }
