# SPDX-License-Identifier: Apache-2.0
"""The base of chats and completions: choices, whole or in chunks, and the usage."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET, Struct, UnsetType, field

from servekit.extension import EncodedResponse
from servekit_openai.envelopes.api import Api, converted
from servekit_openai.envelopes.prompts import MAX_INPUTS
from servekit_openai.errors import refusal
from servekit_openai.inputs import GenerationRequest
from servekit_openai.outputs import AssistantMessage, Completion, Usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from servekit.extension import EnvelopeRequest

__all__ = ["ChoiceProgress", "TextEnvelope", "estimate_tokens"]

EVENT_STREAM: Final = "text/event-stream"
DONE: Final = b"data: [DONE]\n\n"
BYTES_PER_TOKEN: Final = 4  #: in English; used to estimate what a service has not counted

Request = TypeVar("Request", bound=GenerationRequest)
Output = TypeVar("Output", AssistantMessage, Completion)


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
    progress: ChoiceProgress = field(default_factory=ChoiceProgress)


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

    # ------------------------------------------------------------ requests

    def read(self, request: EnvelopeRequest) -> Sequence[Any]:
        """Return an input for each choice.

        :raises InputError: a member is wrong, or a stream would have several choices.
        """
        body = self.read_object(request)
        inputs = self.inputs_of(body)
        asked: Request = converted(inputs[0], self.kind)
        n = asked.n or 1
        if asked.stream and len(inputs) * n > 1 and self._is_streaming:
            name = "n" if n > 1 else "prompt"
            raise refusal(name, "a stream of this model has one choice")
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

    @property
    def _is_streaming(self) -> bool:
        """Whether the outputs of the model come one by one."""
        return self.model.interface is not None and EVENT_STREAM in self.model.interface.produces

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
        usage = self._usage(asked, answers)
        return EncodedResponse(body=self._encode(asked, self.whole, choices, usage))

    def _events(self, asked: ChoicesState, answers: Sequence[Output]) -> bytes:
        wholes = [ChoiceProgress(finish_reason=answer.finish_reason) for answer in answers]
        texts: list[bytes] = []
        for index, (answer, whole) in enumerate(zip(answers, wholes, strict=True)):
            texts.append(self._chunk(asked, self.delta(index, answer, whole)))
            texts.append(self._chunk(asked, self.finish(index, whole)))
        return b"".join([*texts, self._end(asked, self._usage(asked, answers))])

    def write_piece(self, request: EnvelopeRequest, output: Any) -> bytes:
        """Return the chunk of one *output*; b"" if it says only how the stream ends."""
        asked = asked_of(request)
        piece, progress = self.output_of(output), asked.progress
        progress.finish_reason = piece.finish_reason or progress.finish_reason
        progress.usage = piece.usage or progress.usage
        if self.is_bare(piece):
            return b""
        progress.written += self.size(piece)
        return self._chunk(asked, self.delta(0, piece, progress))

    def encode_end(self, request: EnvelopeRequest) -> bytes:
        """Return the finish reason, the usage if it was asked for, and the end of the stream."""
        if not isinstance(request.state, ChoicesState):
            return b""  # an engine ends its streams itself
        asked, progress = request.state, request.state.progress
        usage = progress.usage or Usage(asked.prompt_tokens, tokens_of(progress.written))
        last = self._chunk(asked, self.finish(0, progress))
        return last + self._end(
            asked, usage_object([usage.prompt_tokens], [usage.completion_tokens])
        )

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

    def _usage(self, asked: ChoicesState, answers: Sequence[Output]) -> dict[str, int]:
        """Return what the service has counted; an estimate of what it has not."""
        counted = [answer.usage for answer in answers[:: asked.n]]
        prompts = [usage.prompt_tokens for usage in counted if usage is not None]
        written = [
            answer.usage.completion_tokens if answer.usage else tokens_of(self.size(answer))
            for answer in answers
        ]
        return usage_object(prompts if None not in counted else [asked.prompt_tokens], written)

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


def asked_of(request: EnvelopeRequest) -> ChoicesState:
    """Return the state of *request*, which another worker may have written."""
    if not isinstance(request.state, ChoicesState):
        request.state = msgspec.convert(request.state, ChoicesState)
    asked: ChoicesState = request.state
    return asked


def usage_object(prompts: Iterable[int], written: Iterable[int]) -> dict[str, int]:
    """Return ``usage`` as clients get it."""
    prompt_tokens, completion_tokens = sum(prompts), sum(written)
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
