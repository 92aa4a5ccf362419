# SPDX-License-Identifier: Apache-2.0
"""The base of chats and completions: choices, whole or in chunks, and the usage."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET, Struct, UnsetType

from servekit.extension import EncodedResponse
from servekit_openai.envelopes.api import Api, converted
from servekit_openai.envelopes.choices import (
    ChoiceProgress,
    ChoicesState,
    asked_of,
    usage_object,
)
from servekit_openai.envelopes.prompts import MAX_INPUTS
from servekit_openai.errors import refusal
from servekit_openai.inputs import GenerationRequest
from servekit_openai.outputs import AssistantMessage, Completion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.extension import EnvelopeRequest

__all__ = ["TextEnvelope"]

EVENT_STREAM: Final = "text/event-stream"
DONE: Final = b"data: [DONE]\n\n"

Request = TypeVar("Request", bound=GenerationRequest)
Output = TypeVar("Output", AssistantMessage, Completion)


class ChoicesBody(Struct):
    """A response, or a chunk of it."""

    id: str
    object: str
    created: int
    model: str
    choices: Sequence[Any]
    usage: dict[str, int] | UnsetType | None = UNSET


class TextEnvelope(Api, Generic[Request, Output]):
    """Reads the requests, and writes the choices, of services that generate text."""

    kind: ClassVar[type[Any]]  #: the type of a request
    prefix: ClassVar[str]  #: ids begin with it
    whole: ClassVar[str]  #: ``object`` of a response
    chunk: ClassVar[str]  #: ``object`` of a chunk
    streams_several_inputs = True

    # ------------------------------------------------------------ requests

    def read(self, request: EnvelopeRequest) -> Sequence[Any]:
        """Return an input for each choice.

        :raises InputError: a member is wrong, or there would be too many choices.
        """
        body = self.read_object(request)
        inputs = self.inputs_of(body)
        asked: Request = converted(inputs[0], self.kind)
        n = asked.n or 1
        if len(inputs) * n > MAX_INPUTS:
            raise refusal("n", f"expected at most {MAX_INPUTS} choices, got {len(inputs) * n}")
        options = asked.stream_options
        request.is_stream = bool(asked.stream)
        request.state = ChoicesState(
            id=f"{self.prefix}{request.request_id}",
            created=int(time.time()),
            prompt_tokens=self.estimate(asked, inputs),
            is_stream=request.is_stream,
            wants_usage=bool(options and options.include_usage),
            n=n,
        )
        return [each for each in inputs for _ in range(n)]

    def inputs_of(self, body: dict[str, Any]) -> list[Any]:
        """Return the inputs in *body*."""
        return [body]

    def estimate(self, asked: Request, inputs: Sequence[Any]) -> int:
        """Return about how many tokens the prompts have."""
        raise NotImplementedError

    # ------------------------------------------------------------ responses

    def write(self, request: EnvelopeRequest, outputs: Sequence[Any]) -> EncodedResponse:
        """Return the choices; as events if the client wants a stream of a model that has none."""
        asked = asked_of(request)
        answers = [
            self.join(output if isinstance(output, list) else [output]) for output in outputs
        ]
        if asked.is_stream:
            return EncodedResponse(body=self._events(asked, answers), media_type=EVENT_STREAM)
        choices = [self.choice(index, answer) for index, answer in enumerate(answers)]
        usage = self._usage_of(asked, answers)
        return EncodedResponse(body=self._encode(asked, self.whole, choices, usage))

    def _events(self, asked: ChoicesState, answers: Sequence[Output]) -> bytes:
        wholes = [ChoiceProgress(finish_reason=answer.finish_reason) for answer in answers]
        texts: list[bytes] = []
        for index, (answer, whole) in enumerate(zip(answers, wholes, strict=True)):
            texts.append(self._chunk(asked, self.delta(index, answer, whole)))
            texts.append(self._chunk(asked, self.finish(index, whole)))
        return b"".join([*texts, self._end(asked, self._usage_of(asked, answers))])

    def write_piece(self, request: EnvelopeRequest, output: Any) -> bytes:
        """Return the chunk of one *output*; b"" if it says only how the stream ends."""
        asked = asked_of(request)
        piece, progress = self.output_of(output), asked.progress_of(request.place)
        progress.finish_reason = piece.finish_reason or progress.finish_reason
        progress.usage = piece.usage or progress.usage
        if self.is_bare(piece):
            return b""
        progress.written += self.size(piece)
        return self._chunk(asked, self.delta(request.place, piece, progress))

    def encode_input_end(self, request: EnvelopeRequest) -> bytes:
        """Return the finish reason of a choice."""
        if not isinstance(request.state, ChoicesState):
            return b""  # an engine ends its streams itself
        progress = request.state.progress_of(request.place)
        return self._chunk(request.state, self.finish(request.place, progress))

    def encode_end(self, request: EnvelopeRequest) -> bytes:
        """Return the usage if it was asked for, and the end of the stream."""
        if not isinstance(request.state, ChoicesState):
            return b""
        asked = request.state
        choices = [each for _, each in sorted(asked.progress.items())]
        counted = [(each.usage, each.written) for each in choices]
        return self._end(asked, usage_object(asked, counted))

    def _end(self, asked: ChoicesState, usage: dict[str, int]) -> bytes:
        if not asked.wants_usage:
            return DONE
        return b"data: %b\n\n%b" % (self._encode(asked, self.chunk, [], usage), DONE)

    def _chunk(self, asked: ChoicesState, choice: dict[str, Any]) -> bytes:
        usage = None if asked.wants_usage else UNSET
        return b"data: %b\n\n" % self._encode(asked, self.chunk, [choice], usage)

    def _encode(
        self,
        asked: ChoicesState,
        kind: str,
        choices: Sequence[Any],
        usage: dict[str, int] | UnsetType | None,
    ) -> bytes:
        return _to_json(ChoicesBody(asked.id, kind, asked.created, self.model.name, choices, usage))

    def _usage_of(self, asked: ChoicesState, answers: Sequence[Output]) -> dict[str, int]:
        return usage_object(asked, [(answer.usage, self.size(answer)) for answer in answers])

    # ------------------------------------------------------------ what subclasses define

    def output_of(self, output: Any) -> Output:
        """Return an *output* of a service, or of another worker, as an object."""
        raise NotImplementedError

    def join(self, outputs: Sequence[Any]) -> Output:
        """Return the *outputs* of one input as one."""
        raise NotImplementedError

    def is_bare(self, piece: Output) -> bool:
        """Whether *piece* has no content."""
        raise NotImplementedError

    def size(self, piece: Output) -> int:
        """Return how many bytes of text *piece* has."""
        raise NotImplementedError

    def choice(self, index: int, answer: Output) -> dict[str, Any]:
        """Return the choice in a whole response."""
        raise NotImplementedError

    def delta(self, index: int, piece: Output, progress: ChoiceProgress) -> dict[str, Any]:
        """Return the choice in a chunk; notes in *progress* what has been written."""
        raise NotImplementedError

    def finish(self, index: int, progress: ChoiceProgress) -> dict[str, Any]:
        """Return the choice in the last chunk with a choice."""
        raise NotImplementedError


def _plain(value: Any) -> Any:
    """Return a scalar or an array of NumPy as what JSON has."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} is not JSON")


_to_json = msgspec.json.Encoder(enc_hook=_plain).encode
