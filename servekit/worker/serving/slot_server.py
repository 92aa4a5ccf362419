# SPDX-License-Identifier: Apache-2.0
"""A worker that holds several requests at a time, each in a slot of the front-end.

Requests for methods that answer batches are answered at once: those that have arrived together from
one front-end are a batch.
"""

import os
from abc import abstractmethod
from typing import NamedTuple

from servekit.errors import ResultNotEncodable
from servekit.ipc.batches import EnvelopePart, Freed, Open, Part, Parts, Slab, SlotsReply
from servekit.ipc.channel import encode_frame
from servekit.worker.prediction.current_batch import OpenItem
from servekit.worker.prediction.error_answers import error_answer
from servekit.worker.prediction.predictor import Predictor
from servekit.worker.prediction.runs import Run
from servekit.worker.process.log import report
from servekit.worker.serving.batch_answer import answer_with
from servekit.worker.serving.batch_server import PROTOCOL_OF, BatchServer
from servekit.worker.transport.channel import FrontEndChannel

__all__ = ["ALIVE_S", "SlotServer"]

ALIVE_S = 0.5  #: a front-end gets a message at least so often while it waits for answers


class WholeRequest(NamedTuple):
    """A request for a method that answers batches."""

    channel: FrontEndChannel
    stream: int  #: its number on the channel
    item: OpenItem


class SlotServer(BatchServer):
    """Takes requests one by one, and answers each when it is done."""

    _whole: tuple[WholeRequest, ...] = ()  #: not yet answered

    def _serve(self, timeout_ms: int | None = None) -> None:
        super()._serve(timeout_ms)
        whole, self._whole = self._whole, ()
        for channel in dict.fromkeys(each.channel for each in whole):
            if channel.sock.fileno() >= 0:
                self._answer(channel, [each for each in whole if each.channel is channel])

    def _open(self, channel: FrontEndChannel, message: Open) -> None:
        self._heap.work()
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
            self._whole += (WholeRequest(channel, message.stream, item),)

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
        result = answer_with(self._recorder_of(channel, items), speaker, items, 0, None)
        if self._is_forked:  # predict forked, and this is the child; the parent answers
            os._exit(0)
        self._is_leaving |= speaker.is_leaving
        self._reply(channel, SlotsReply(streams[0], streams=streams), result, items)

    def _send_parts(self, channel: FrontEndChannel, parts: list[Part]) -> None:
        try:
            self._send(channel, encode_frame(Parts(parts), self._buffer))
        except Exception:  # noqa: BLE001 - too large, or of types that no check has foreseen
            for part in parts:
                self._send(channel, self._frame_of(channel, part))

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
