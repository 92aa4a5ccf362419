# SPDX-License-Identifier: Apache-2.0
"""Requests that envelopes read and write without what is made for each of the others."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from servekit.extension.envelope import EncodedResponse
from servekit.ipc.batches import EnvelopePart
from servekit.worker.envelopes.accepted import AcceptedResponse, accepted
from servekit.worker.envelopes.input_items import input_item
from servekit.worker.process.log import report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.extension.envelope import Envelope
    from servekit.ipc.arena import Pieces
    from servekit.worker.envelopes.table import EnvelopeTable
    from servekit.worker.prediction.batch_result import Answered, Responses
    from servekit.worker.prediction.current_batch import OpenItem

__all__ = ["PlainRequests"]

JSON: Final = "application/json"
BOTH: Final = EnvelopePart.BOTH
ERROR_OF, OUTPUT_OF = itemgetter(0), itemgetter(2)


class PlainRequests:
    """The requests of one batch that their envelopes read by ``decode_plain``."""

    __slots__ = ("_items", "_read", "_table", "inputs", "left")

    def __init__(self, table: EnvelopeTable, items: Sequence[OpenItem]) -> None:
        """Read those of *items* that can be read so, by the envelopes of *table*."""
        self._table, self._items = table, items
        self._read: dict[Envelope, tuple[list[int], list[Any]]] = {}  #: their places, and states
        #: by place, what is predicted: one input; ``None`` for requests that have to be opened
        self.inputs: list[Any] = [None] * len(items)
        self.left = len(items)  #: number of those
        inputs, plain, takes_view = self.inputs, table.plain, table.takes_view
        for place, item in enumerate(items):
            protocol = item.protocol
            if protocol is None:
                inputs[place] = item
                self.left -= 1
                continue
            envelope = plain.get((protocol.envelope, item.calls))
            if envelope is None or protocol.part is not BOTH or protocol.is_stream:
                continue
            try:
                request = envelope.decode_plain(item.body, protocol.parameters)  # type: ignore[arg-type]
                if request is None:
                    continue
                inputs[place] = input_item(item, request.input, takes_view)
            except Exception as error:  # noqa: BLE001 - a plugin may raise anything
                _report(envelope, "decode_plain", error)
                continue
            places, states = self._read.get(envelope) or self._read.setdefault(envelope, ([], []))
            places.append(place)
            states.append(request.state)
            self.left -= 1

    def write(self, answers: list[Answered]) -> tuple[Responses, dict[int, Pieces]]:
        """Replace the outputs in *answers* that are those of these requests by their responses.

        :return: by place, what is more than a body: heads, and large bodies.
        """
        heads: Responses = {}
        large: dict[int, Pieces] = {}
        small_bytes = self._table.small_bytes
        for envelope, (places, states) in self._read.items():
            found = [answers[place] for place in places]
            if any(map(ERROR_OF, found)):
                kept = [at for at, answer in enumerate(found) if not answer[0]]
                found = [found[at] for at in kept]
                places, states = [places[at] for at in kept], [states[at] for at in kept]
            outputs = [*map(OUTPUT_OF, found)]
            responses = _responses(envelope, states, outputs)
            for place, state, output, response in zip(
                places, states, outputs, responses, strict=True
            ):
                if type(response) is bytes and len(response) < small_bytes:
                    answers[place] = "", JSON, response
                    continue
                answers[place], head, pieces = self._write(place, state, output, response)
                if head is not None:
                    heads[place] = head
                if pieces is not None:
                    large[place] = pieces
        return heads, large

    def _write(
        self, place: int, state: Any, output: Any, response: bytes | EncodedResponse | None
    ) -> AcceptedResponse:
        """Return *response*, or what ``encode`` writes if that is ``None``."""
        if isinstance(response, bytes):
            response = EncodedResponse(body=response)
        try:
            if response is not None:
                return accepted(response, self._table.launch)
        except Exception as error:  # noqa: BLE001 - a plugin may return anything
            failed = self._table.open(self._items[place]).failed("encode_plain", error)
            return AcceptedResponse(failed, None, None)
        request = self._table.open(self._items[place])
        request.request.state = state
        return AcceptedResponse(request.answer([output]), request.response, request.pieces)


def _responses(
    envelope: Envelope, states: Sequence[Any], outputs: Sequence[Any]
) -> Sequence[bytes | EncodedResponse | None]:
    """Return what *envelope* writes; ``None`` for requests that have to be opened."""
    try:
        return envelope.encode_plain(states, outputs)
    except Exception as error:  # noqa: BLE001 - a plugin may raise anything
        _report(envelope, "encode_plain", error)
        return [None] * len(outputs)


def _report(envelope: Envelope, method: str, error: Exception) -> None:
    kind = type(envelope)
    report(f"{kind.__module__}.{kind.__name__}.{method} failed", error)
