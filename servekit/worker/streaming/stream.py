# SPDX-License-Identifier: Apache-2.0
"""One stream: a request whose outputs are written as they come."""

from __future__ import annotations

from copy import copy
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from servekit.errors import ResultNotEncodable
from servekit.ipc.batches import BETWEEN_STEPS, Part
from servekit.ipc.response_style import ResponseStyle, wants_stream
from servekit.ipc.stream_formats import EVENT_STREAM, STREAM_FORMATS, StreamFormat, styled
from servekit.service.response import Response
from servekit.worker.codecs.media_headers import parse_accept, remember
from servekit.worker.codecs.plain import text
from servekit.worker.prediction.negotiation import Plan, Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from servekit.ipc.batches import Answer, Open
    from servekit.service.request import Request
    from servekit.service.spans import SpanRecorder
    from servekit.worker.envelopes.opened import OpenedRequest
    from servekit.worker.prediction.batch_result import Answered
    from servekit.worker.prediction.current_batch import OpenItem
    from servekit.worker.prediction.predictor import Predictor
    from servekit.worker.prediction.runs import Run
    from servekit.worker.streaming.stepping import Advance, Stepping
    from servekit.worker.transport.channel import FrontEndChannel

    #: ``Predictor.written``
    Write = Callable[[Plan, Any], tuple[str, bytes]]

__all__ = ["Formats", "Siblings", "Stream", "StreamInput"]

#: between the stages of a model, or for another model: never a stream
INTERNAL = frozenset(name.encode() for name in BETWEEN_STEPS)
#: how the text of one is written on a raw route
RAW_OUTPUT = Plan([Writer("text/plain", text.encode, takes_any=True)], [])


class Formats(dict[bytes, StreamFormat | None]):
    """``Accept`` as received to the format of the outputs; ``None``: one answer at the end."""

    def __missing__(self, header: bytes) -> StreamFormat | None:
        named = [found for found in parse_accept(header) if found.is_concrete]
        best = max((found.quality for found in named), default=0.0)
        liked = {found.name for found in named if found.quality == best > 0}
        found = next((form for name, form in STREAM_FORMATS.items() if name in liked), None)
        remember(self, header, found)
        return found

    def of(self, item: OpenItem) -> StreamFormat | None:
        """Return the format of the outputs for *item*; a member of its body can decide."""
        found = self[item.accept]
        if item.style is None:
            return found
        wanted = _wanted(item, item.style)
        if wanted is False or (found is None and not wanted):
            return None
        return styled(found.media_type if found is not None else EVENT_STREAM, item.style)


def _wanted(item: OpenItem, style: ResponseStyle) -> bool | None:
    """Return whether the body of *item* asks for a stream; ``None`` if it does not say."""
    if not style.stream.field or style.wants_stream is not None or item.accept in INTERNAL:
        return style.wants_stream
    body = item.body if isinstance(item.body, bytes | memoryview) else item.body.body
    return wants_stream(style.stream.field, item.content_type, body)


class Stream:
    """One request, from the message that brought it to its end."""

    __slots__ = (
        *("_started", "_steps", "channel", "enveloped", "format", "input", "item", "kept"),
        *("message", "plan", "predictor", "recorder", "request", "run", "slot", "stepping"),
    )

    slot: Any
    stepping: Stepping  #: drives the method that streams, in a worker that takes turns
    request: Request
    plan: Plan  #: for the one answer, if there is no ``format``
    recorder: SpanRecorder | None  #: if the request is traced

    def __init__(
        self,
        message: Open,
        item: OpenItem,
        channel: FrontEndChannel,
        predictor: Predictor,
        run: Run | None = None,
    ) -> None:
        """Wait to be admitted.

        :param predictor: of the method that streams.
        :param run: the services before, and the one that streams.
        """
        self.message, self.item, self.channel = message, item, channel
        self.predictor, self.run, self.recorder = predictor, run, None
        self.format: StreamFormat | None = None
        self.enveloped: OpenedRequest | None = None  #: if it comes by a protocol: writes it
        self.input: StreamInput | None = None  #: once it is known
        self.kept: list[Any] = []  #: the outputs so far, if they are sent at the end
        self._started = 0.0
        self._steps: dict[str, float] = {}  #: seconds of stages, not yet sent

    def begin(self, steps: dict[str, float], *, is_led: bool) -> None:
        """Start the last service of the run, after the others took *steps*.

        :param is_led: the others have an input for it.
        """
        self._started, self._steps = monotonic() if is_led else 0.0, steps

    @property
    def has_gone(self) -> bool:
        """Whether its client has disconnected."""
        cancelled = self.channel.shared.cancelled
        return cancelled is not None and cancelled.has(self.message.stream, self.message.place)

    def part(self, advance: Advance, write: Write) -> Part | None:
        """Return what one step brings for the client. Raises what the writing raises."""
        if any(isinstance(output, Response) for output in advance.outputs):
            raise ResultNotEncodable("output: a Response cannot be part of a stream")
        if self.enveloped is not None:
            return self._enveloped_part(self.enveloped, advance)
        if self.format is None:
            self.kept += advance.outputs
            if not advance.is_over:
                return None
            answered: Answered = ("", *write(self.plan, self.kept))
            (last,) = self.channel.shared.lay_out([answered])
            return self._part("", b"", len(self.kept), last)
        if not (advance.outputs or advance.is_over):
            return None
        plan = self.predictor.plans.piece
        pieces = [_piece(self.format, plan, output, write) for output in advance.outputs]
        end = ("", "", b"") if advance.is_over else None
        return self._part(self.format.media_type, b"".join(pieces), len(pieces), end)

    def _enveloped_part(self, enveloped: OpenedRequest, advance: Advance) -> Part | None:
        if enveloped.request.is_stream:
            is_due = bool(advance.outputs) or advance.is_over
            part = self._enveloped_pieces(enveloped, advance) if is_due else None
            if enveloped.request.is_stream:  # the first output may say that there is no stream
                return part
        self.kept += advance.outputs
        if not advance.is_over:
            return None
        streams = self._note_end()
        return self.whole(streams) if streams else None

    def _note_end(self) -> Sequence[Stream]:
        """Note that it has all outputs; return all streams of its request once all have."""
        return [self] if self.siblings is None else self.siblings.note_end()

    @property
    def siblings(self) -> Siblings | None:
        """The streams of its request, if that has several inputs."""
        return self.input.siblings if self.input is not None else None

    def whole(self, streams: Sequence[Stream]) -> Part:
        """Return the answer of a request that comes by a protocol.

        :param streams: those of its inputs, with all outputs.
        """
        enveloped, as_object = self.enveloped, self.predictor.plans.as_object
        assert enveloped is not None
        answered = enveloped.answer([as_object(each.kept) for each in streams])
        pieces = {} if enveloped.pieces is None else {0: enveloped.pieces}
        (last,) = self.channel.shared.lay_out([answered], pieces)
        outputs = sum(len(each.kept) for each in streams)
        return self._part("", b"", outputs, last, enveloped.response)

    def _enveloped_pieces(self, enveloped: OpenedRequest, advance: Advance) -> Part:
        place, is_last = self.input.place if self.input is not None else 0, False
        try:
            as_piece = self.predictor.plans.as_piece
            pieces = [enveloped.output(place, as_piece(output)) for output in advance.outputs]
            if advance.is_over and enveloped.request.is_stream:
                is_last = bool(self._note_end())
                pieces.append(enveloped.end(place, is_last=is_last))
        except BaseException as error:  # noqa: BLE001 - a plugin may raise anything
            return self.failed(enveloped.failed("encode_output", error))
        end = ("", "", b"") if is_last else None
        outputs = len(advance.outputs)
        return self._part(enveloped.stream_media_type, b"".join(pieces), outputs, end)

    def failed(self, end: Answer) -> Part:
        """Return the last part, with the error *end*."""
        return self._part("", b"", 0, end)

    def _part(
        self,
        media_type: str,
        body: bytes,
        outputs: int,
        end: Answer | None,
        response: tuple[int, list[tuple[str, str]]] | None = None,
    ) -> Part:
        steps, self._steps = self._steps, {}
        if end is not None and self._started and self.run is not None:
            steps[self.run.last_name] = monotonic() - self._started
        return Part(self.message.stream, media_type, body, outputs, end, response, steps)


class Siblings:
    """The streams of one request, one for each input. The last that ends, ends the request."""

    __slots__ = ("_ended", "streams")

    def __init__(self, stream: Stream, items: Sequence[OpenItem]) -> None:
        """Divide *stream*, which is not admitted yet, into one for each of *items*."""
        self.streams = [self._stream_of(stream, place, item) for place, item in enumerate(items)]
        self._ended = 0

    def _stream_of(self, stream: Stream, place: int, item: OpenItem) -> Stream:
        found = copy(stream)
        found.kept, found.input = [], StreamInput(item, place, self)
        return found

    def note_end(self) -> Sequence[Stream]:
        """Note that one of the streams has all outputs; return all of them if all have."""
        self._ended += 1
        return self.streams if self._ended == len(self.streams) else ()


class StreamInput(NamedTuple):
    """The item that a service gets for a stream."""

    item: OpenItem
    place: int = 0  #: among those of its request
    siblings: Siblings | None = None  #: if its request has several inputs


def _piece(form: StreamFormat, plan: Plan, output: Any, write: Write) -> bytes:
    """Return *output* as a piece of a stream. Raises what the writing raises."""
    if form.is_raw and isinstance(output, str):
        return form.text_piece(write(RAW_OUTPUT, output)[1])
    return form.output % write(plan, output)[1]
