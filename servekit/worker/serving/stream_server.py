# SPDX-License-Identifier: Apache-2.0
"""The loop of a worker that streams: it takes a turn over all streams, then reads new messages.

Its other requests, for methods that answer batches, are answered between two turns: those that
have arrived meanwhile are a batch.
"""

import os
from time import monotonic
from typing import Any, NamedTuple

from servekit.ipc.batches import EnvelopePart, Freed, Open, Part, Parts, Slab
from servekit.ipc.channel import FrameTooLarge, encode_frame
from servekit.worker.prediction.batch_result import BatchResult
from servekit.worker.prediction.current_batch import OpenItem
from servekit.worker.prediction.runs import Run
from servekit.worker.serving.batch_server import PROTOCOL_OF, BatchServer, answer_with
from servekit.worker.serving.loaded import Loaded
from servekit.worker.streaming.stream import Stream
from servekit.worker.streaming.streams import ActiveStreams
from servekit.worker.transport.channel import FrontEndChannel

__all__ = ["StreamServer"]

ALIVE_S = 0.5  #: a front-end gets a message at least so often while it waits for streams


class WholeRequest(NamedTuple):
    """A request whose output does not come in parts."""

    channel: FrontEndChannel
    stream: int  #: its number on the channel
    item: OpenItem


class StreamServer(BatchServer):
    """Serves a loaded service some of whose outputs come one by one."""

    def __init__(self, loaded: Loaded, *arguments: Any) -> None:
        """Serve *loaded*; see ``BatchServer`` for the rest."""
        super().__init__(loaded, *arguments)
        self._slots, most_bytes = self._launch.max_batch_size, self._launch.max_answer_bytes
        self._streams = ActiveStreams(self._envelopes, self._slots, most_bytes)
        self._whole: list[WholeRequest] = []  #: not yet answered
        self._sent: dict[FrontEndChannel, float] = {}  #: when each front-end last got a message

    def run(self) -> int:
        """Serve until the supervisor says stop or is gone; return the exit status."""
        try:
            return super().run()
        finally:
            self._streams.close()

    def _serve(self, timeout_ms: int | None = None) -> None:
        super()._serve(0 if self._streams.is_busy else timeout_ms)
        while self._whole:
            batch, self._whole = self._whole[: self._slots], self._whole[self._slots :]
            self._answer(batch)
        if self._streams.is_busy and not self._is_stopping:
            self._turn()

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
        found = self._loaded.methods.find(item.calls)
        predictor, run = (found.last, found) if isinstance(found, Run) else (found, None)
        stepping = None if predictor is None else self._loaded.steppings.get(predictor)
        is_part = item.protocol is not None and item.protocol.part is not EnvelopePart.BOTH
        if predictor is None or stepping is None or is_part:
            self._whole.append(WholeRequest(channel, message.stream, item))
        else:
            self._streams.put(Stream(message, item, channel, predictor, stepping, run))

    def _answer(self, batch: list[WholeRequest]) -> None:
        """Answer requests that do not stream."""
        items = [each.item for each in batch]
        is_of_protocols = any(map(PROTOCOL_OF, items))
        speaker = self._enveloped() if is_of_protocols else self._loaded.methods.of(items)
        result = answer_with(speaker, items, 0, None)
        if self._is_forked:  # predict forked, and this is the child; the parent answers
            os._exit(0)
        self._is_leaving |= speaker.is_leaving
        for channel in dict.fromkeys(each.channel for each in batch):
            if channel.sock.fileno() >= 0:
                self._send_answers(channel, batch, result)

    def _send_answers(
        self, channel: FrontEndChannel, batch: list[WholeRequest], result: BatchResult
    ) -> None:
        """Send those answers of *batch* that are for *channel*."""
        places = [place for place, each in enumerate(batch) if each.channel is channel]
        answers = [result.answers[place] for place in places]
        pieces = {
            at: result.pieces[each] for at, each in enumerate(places) if each in result.pieces
        }
        ends = channel.shared.lay_out(answers, pieces)
        parts = [
            Part(batch[place].stream, "", b"", 1, end, result.responses.get(place), result.steps)
            for place, end in zip(places, ends, strict=True)
        ]
        self._send_parts(channel, parts)

    def _close(self, channel: FrontEndChannel) -> None:
        super()._close(channel)
        self._sent.pop(channel, None)
        self._streams.leave(channel)

    def _turn(self) -> None:
        found: dict[FrontEndChannel, list[Part]] = {}
        for stream, part in self._streams.turn():
            found.setdefault(stream.channel, []).append(part)
        self._is_leaving |= self._streams.is_leaving
        if self._is_forked:  # a step forked, and this is the child; the parent answers
            os._exit(0)
        now = monotonic()
        for channel in list(self._channels.values()):
            parts = found.get(channel, [])
            if parts or now - self._sent.get(channel, 0.0) > ALIVE_S:
                self._sent[channel] = now
                self._send_parts(channel, parts)

    def _send_parts(self, channel: FrontEndChannel, parts: list[Part]) -> None:
        try:
            self._send(channel, encode_frame(Parts(parts), self._buffer))
        except FrameTooLarge:  # each part alone fits into a frame
            for part in parts:
                self._send(channel, encode_frame(Parts([part]), self._buffer))
