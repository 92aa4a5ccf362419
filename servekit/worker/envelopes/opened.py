# SPDX-License-Identifier: Apache-2.0
"""One request of a protocol: from its body to inputs, and from outputs to its answer."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from servekit.errors import BodyMalformed, RequestError, ResultNotEncodable, ServiceError
from servekit.extension.envelope import (
    EncodedInput,
    EncodedResponse,
    Envelope,
    EnvelopeRequest,
    ListInput,
    Rows,
)
from servekit.ipc.batches import VALUES, EnvelopePart
from servekit.service.identity import Identity
from servekit.service.response import Response
from servekit.worker.codecs.value import values
from servekit.worker.envelopes.accepted import accepted
from servekit.worker.envelopes.heads import text_of
from servekit.worker.envelopes.input_items import input_item
from servekit.worker.inputs.row_counts import check_counts
from servekit.worker.prediction.error_answers import error_answer
from servekit.worker.prediction.objects import DecodedInput, with_known_arrays
from servekit.worker.process.log import report

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from servekit.ipc.arena import Pieces
    from servekit.ipc.control import Launch
    from servekit.worker.prediction.batch_result import Answered
    from servekit.worker.prediction.current_batch import OpenItem

__all__ = ["OpenedRequest"]


class OpenedRequest:
    """One request, read and written by its envelope. What that raises is the answer."""

    __slots__ = (
        *("_cuts", "_envelope", "_item", "_launch", "_takes_view"),
        *("pieces", "request", "response"),
    )

    def __init__(
        self,
        envelope: Envelope,
        item: OpenItem,
        launch: Launch,
        takes_view: Callable[[bytes], bool],
    ) -> None:
        """Prepare for *item*, which has a protocol.

        :param launch: has the limits of answers.
        :param takes_view: whether bodies of a content type may be views.
        """
        assert item.protocol is not None
        assert not isinstance(item.body, DecodedInput)
        self._envelope, self._item, self._launch = envelope, item, launch
        self._takes_view = takes_view
        self.request = EnvelopeRequest(
            body=item.body,
            content_type=text_of(item.content_type),
            accept=text_of(item.accept),
            request_id=item.request_id,
            parameters=item.protocol.parameters,
            is_stream=item.protocol.is_stream,
            is_split=item.protocol.part is not EnvelopePart.BOTH,
            identity=Identity(*item.identity) if item.identity is not None else None,
        )
        self.response: tuple[int, list[tuple[str, str]]] | None = None  #: status and headers
        self.pieces: Pieces | None = None  #: the body of the answer, if it is large
        #: for each input: how many rows it has been cut into, or -1 if it is a single input
        self._cuts: list[int] = []

    @property
    def stream_media_type(self) -> str:
        """Return the media type of outputs that are sent as they come."""
        return self._envelope.stream_media_type

    @property
    def streams_several_inputs(self) -> bool:
        """Whether a stream may have several inputs."""
        return self._envelope.streams_several_inputs

    def items(self, *, takes_rows: bool = False) -> list[OpenItem]:
        """Return an item for each input in the body.

        :param takes_rows: ``Rows`` are one item; otherwise they are cut into single inputs.
        :raises RequestError: the envelope refuses the body.
        """
        inputs = self._decoded()
        if not takes_rows:
            inputs = self._cut(inputs)
        return [input_item(self._item, each, self._takes_view) for each in inputs]

    def _cut(self, inputs: list[Any]) -> list[Any]:
        """Return *inputs* with each row of ``Rows`` as a single input.

        :raises InputError: the arrays of some ``Rows`` differ in length.
        """
        if Rows not in map(type, inputs):
            return inputs
        from servekit.worker.inputs.row_input import cut  # imports numpy

        self._cuts = [each.count if type(each) is Rows else -1 for each in inputs]
        found = [cut(each) if type(each) is Rows else [each] for each in inputs]
        return [single for singles in found for single in singles]

    def inputs(self) -> Answered:
        """Return the inputs as values for other workers, after the state of the envelope.

        :raises RequestError: the envelope refuses the body.
        """
        inputs = [self._value_of(each) for each in self._cut(self._decoded())]
        return "", VALUES, values.encode([[self.request.state, self._cuts], *inputs])

    def _value_of(self, value: Any) -> Any:
        if isinstance(value, EncodedInput):
            return self._envelope.codecs.read(value.content_type, bytes(value.body))
        return value.values if isinstance(value, ListInput) else value

    def outputs(self) -> list[Any]:
        """Return the outputs of other workers, and restore the state of the envelope."""
        found: list[Any] = values.decode(cast("bytes", self.request.body), {})  # it takes views
        (self.request.state, self._cuts), self.request.body = found[0], b""
        return found[1:]

    def _decoded(self) -> list[Any]:
        size = len(self.request.body)
        try:
            inputs = list(self._envelope.decode(self.request))
        except (RequestError, MemoryError):
            raise
        except Exception as error:
            if self._launch.is_dev:
                self._report("decode", error)
            raise BodyMalformed("body: not readable") from error
        check_counts(inputs, size)
        return inputs

    def answer(self, outputs: Sequence[Any]) -> Answered:
        """Return the answer with *outputs*, one for each item."""
        try:
            return self._encode(self._joined(outputs))
        except BaseException as error:  # noqa: BLE001 - a plugin may raise anything
            return self.failed("encode", error)

    def _joined(self, outputs: Sequence[Any]) -> list[Any]:
        """Return *outputs* with ``Rows`` for those of each input that has been cut."""
        if not self._cuts:
            return [*outputs]
        from servekit.worker.prediction.row_outputs import joined_rows  # imports numpy

        interface = self._envelope.model.interface
        signature = (interface.signature if interface is not None else None) or {}
        declared, left = signature.get("outputs", ()), iter(outputs)
        return [
            next(left) if count < 0 else joined_rows([*islice(left, count)], declared)
            for count in self._cuts
        ]

    def failed(self, method: str, error: BaseException) -> Answered:
        """Return the answer of *error*, which *method* of the envelope raised."""
        if isinstance(error, RequestError):
            return error_answer(error)
        self._report(method, error)
        is_known = isinstance(error, ServiceError | MemoryError)
        return error_answer(error if is_known else ResultNotEncodable())

    def _report(self, method: str, error: BaseException) -> None:
        where = f"{type(self._envelope).__module__}.{type(self._envelope).__name__}.{method}"
        report(f"{where} failed", error, [self._item.request_id])

    def _encode(self, outputs: list[Any]) -> Answered:
        own = outputs[0] if len(outputs) == 1 and isinstance(outputs[0], Response) else None
        if own is not None:
            self.request.response, outputs = own, [own.output]
        return self._accepted(self._envelope.encode(self.request, with_known_arrays(outputs)), own)

    def _accepted(self, encoded: EncodedResponse, own: Response | None = None) -> Answered:
        """Return *encoded* as an answer, and keep what is more than a body.

        :param own: the response of the service.
        """
        answer, self.response, self.pieces = accepted(encoded, self._launch, own)
        return answer

    def output(self, place: int, output: Any) -> bytes:
        """Return the piece of *output* of the input at *place*. Raises what the envelope raises."""
        self.request.place = place
        return self._envelope.encode_output(self.request, with_known_arrays(output))

    def end(self, place: int, *, is_last: bool) -> bytes:
        """Return the piece after the last output of the input at *place*. Raises the same.

        :param is_last: it is the last piece of the stream, too.
        """
        self.request.place = place
        piece = self._envelope.encode_input_end(self.request)
        return piece + self._envelope.encode_end(self.request) if is_last else piece
