# SPDX-License-Identifier: Apache-2.0
"""The state of a request until all of its choices have been written, and their usage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct, field

from servekit_openai.outputs import Usage  # noqa: TC001 - msgspec reads the annotations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.extension import EnvelopeRequest

__all__ = ["ChoiceProgress", "ChoicesState", "asked_of", "estimate_tokens", "usage_object"]

BYTES_PER_TOKEN: Final = 4  #: in English; used to estimate what a service has not counted


class ChoiceProgress(Struct):
    """The part of a choice that has been written."""

    has_begun: bool = False
    calls: int = 0  #: tools that have been called
    written: int = 0  #: bytes of text
    finish_reason: str = ""
    usage: Usage | None = None


class ChoicesState(Struct):
    """The parts of a request that its response needs. It may go from one worker to another."""

    id: str
    created: int
    prompt_tokens: int  #: estimated
    is_stream: bool = False
    wants_usage: bool = False  #: in a stream
    n: int = 1  #: choices for each prompt
    progress: dict[int, ChoiceProgress] = field(default_factory=dict)  #: in a stream, by index

    def progress_of(self, index: int) -> ChoiceProgress:
        """Return what has been written of the choice *index*."""
        return self.progress.setdefault(index, ChoiceProgress())


def asked_of(request: EnvelopeRequest) -> ChoicesState:
    """Return the state of *request*, which another worker may have written."""
    if not isinstance(request.state, ChoicesState):
        request.state = msgspec.convert(request.state, ChoicesState)
    asked: ChoicesState = request.state
    return asked


def usage_object(
    asked: ChoicesState, choices: Sequence[tuple[Usage | None, int]]
) -> dict[str, int]:
    """Return what the service has counted, as clients get it; an estimate of what it has not.

    :param choices: for each of them, what was counted, and the bytes of its text.
    """
    counted = [usage for usage, _ in choices[:: asked.n]]
    prompts = [usage.prompt_tokens for usage in counted if usage is not None]
    prompt_tokens = sum(prompts) if None not in counted else asked.prompt_tokens
    completion_tokens = sum(
        usage.completion_tokens if usage else tokens_of(size) for usage, size in choices
    )
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }


def estimate_tokens(text: str) -> int:
    """Return about how many tokens *text* has."""
    return tokens_of(len(text.encode("utf-8", "surrogatepass")))


def tokens_of(size: int) -> int:
    """Return about how many tokens *size* bytes of text are."""
    return -(-size // BYTES_PER_TOKEN)
