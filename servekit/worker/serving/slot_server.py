# SPDX-License-Identifier: Apache-2.0
"""A worker that holds several requests at a time, each in a slot of the front-end.

Requests for methods that answer batches are answered at once: those that have arrived together from
one front-end are a batch.
"""

import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any, NamedTuple

from servekit.errors import ResultNotEncodable
from servekit.ipc.batches import (
    ALIVE_S,
    EnvelopePart,
    Freed,
    Open,
    Part,
    Parts,
    Slab,
    SlotsReply,
)
from servekit.ipc.cancellation import CancelledReader
from servekit.ipc.channel import encode_frame
from servekit.worker.prediction.current_batch import OpenItem
from servekit.worker.prediction.error_answers import error_answer
from servekit.worker.prediction.predictor import Predictor
from servekit.worker.prediction.runs import Run
from servekit.worker.process.log import report
from servekit.worker.serving.batch_answer import answer_with
from servekit.worker.serving.batch_server import PROTOCOL_OF, BatchServer
from servekit.worker.serving.loaded import Loaded
from servekit.worker.transport.channel import FrontEndChannel

__all__ = ["SlotServer"]


class WholeRequest(NamedTuple):
    """A request for a method that answers batches."""

    channel: FrontEndChannel
    stream: int  #: its number on the channel
    place: int  #: of its slot
    item: OpenItem


class CancelledSlots(CancelledReader):
    """Says which clients of a batch have disconnected, when each request has a separate slot."""

    __slots__ = ("_reader", "_slots")

    def __init__(self, reader: CancelledReader, slots: Sequence[tuple[int, int]]) -> None:
        """Ask *reader*.

        :param slots: for each request of the batch its number and its place.
        """
        self._reader, self._slots = reader, slots

    def has_any(self, batch: int) -> bool:  # noqa: ARG002 - each has its own number
        """Whether the batch has lost a client."""
        return any(self._reader.has(*slot) for slot in self._slots)

    def has(self, batch: int, place: int) -> bool:  # noqa: ARG002 - see above
        """Whether the client of the request at *place* in the batch has disconnected."""
        return self._reader.has(*self._slots[place])


class SlotServer(BatchServer):
    """Takes requests one by one, and answers each when it is done."""

    _whole: tuple[WholeRequest, ...] = ()  #: not yet answered

    def __init__(self, loaded: Loaded, *arguments: Any) -> None:
        """Serve *loaded*; see ``BatchServer``."""
        super().__init__(loaded, *arguments)
        self._taken: dict[FrontEndChannel, int] = {}  #: the last stream of each
        self._sent: dict[FrontEndChannel, float] = {}  #: when each last got parts: ``monotonic``

    def _serve(self, timeout_ms: int | None = None) -> None:
        super()._serve(timeout_ms)
        whole, self._whole = self._whole, ()
        for channel in dict.fromkeys(each.channel for each in whole):
            if channel.sock.fileno() >= 0:
                self._answer(channel, [each for each in whole if each.channel is channel])
                self._send_turn({})

    def _open(self, channel: FrontEndChannel, message: Open) -> None:
        self._heap.work()
        self._taken[channel] = message.stream
        shared = channel.shared
        shared.free(message.freed)
        try:
            (item,) = shared.look([message.item], lambda _content_type: False)
        except OSError:  # ChannelClosed: a slab outside the arena
            self._close(channel)
            return
        if isinstance(message.item.body, Slab):  # it has been copied
            self._send(channel, encode_frame(Freed([message.item.body.offset])))
        if channel.calls is not None and self._loaded.calls is not None:
            self._loaded.calls.prefer(channel.calls)
        found = self._loaded.methods.find(item.calls)
        is_part = item.protocol is not None and item.protocol.part is not EnvelopePart.BOTH
        if found is None or is_part or not self._begin(channel, message, item, found):
            self._whole += (WholeRequest(channel, message.stream, message.place, item),)

    @abstractmethod
    def _begin(
        self, channel: FrontEndChannel, message: Open, item: OpenItem, found: Predictor | Run
    ) -> bool:
        """Hold *item* in a slot, unless *found* answers batches; return whether it does."""

    def _answer(self, channel: FrontEndChannel, batch: list[WholeRequest]) -> None:
        """Answer requests of one front-end as a batch: at most as many as there are slots."""
        items, streams = [each.item for each in batch], [each.stream for each in batch]
        is_of_protocols = any(map(PROTOCOL_OF, items))
        speaker = self._enveloped if is_of_protocols else self._loaded.methods.of(items)
        slots, reader = [(each.stream, each.place) for each in batch], channel.shared.cancelled
        cancelled = CancelledSlots(reader, slots) if reader is not None else None
        result = answer_with(self._recorder_of(channel, items), speaker, items, 0, cancelled)
        if self._is_forked:  # predict forked, and this is the child; the parent answers
            os._exit(0)
        self._is_leaving |= speaker.is_leaving
        reply = SlotsReply(streams[0], is_last=self._is_leaving, streams=streams)
        self._reply(channel, reply, result, items)

    def _send_turn(self, found: Mapping[FrontEndChannel, list[Part]]) -> None:
        """Send *found*, and a sign of life to all who have not heard anything for a while."""
        now = monotonic()
        for channel in list(self._channels.values()):
            parts = found.get(channel, [])
            is_due = self._is_leaving or now - self._sent.get(channel, 0.0) > ALIVE_S
            if parts or is_due:
                self._sent[channel] = now
                self._send_parts(channel, parts)

    def _send_parts(self, channel: FrontEndChannel, parts: list[Part]) -> None:
        taken = self._taken.get(channel, 0) if self._is_leaving else None
        try:
            self._send(channel, encode_frame(Parts(parts, taken), self._buffer))
        except Exception:  # noqa: BLE001 - too large, or of types that no check has foreseen
            for part in parts:
                self._send(channel, self._frame_of(channel, part))

    def _close(self, channel: FrontEndChannel) -> None:
        super()._close(channel)
        self._taken.pop(channel, None)
        self._sent.pop(channel, None)

    def _frame_of(self, channel: FrontEndChannel, part: Part) -> bytearray:
        """Return a frame with *part* alone, or with an error in its place."""
        try:
            return encode_frame(Parts([part]), self._buffer)
        except Exception as error:  # noqa: BLE001 - see above
            report(f"an answer cannot be sent: {error}", None)
            if part.end is not None:
                channel.shared.drop([part.end])
            end = error_answer(ResultNotEncodable())
            return encode_frame(Parts([Part(part.stream, "", b"", 0, end)]), self._buffer)
