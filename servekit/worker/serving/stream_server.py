# SPDX-License-Identifier: Apache-2.0
"""The loop of a worker that streams: it takes a turn over all streams, then reads new messages."""

import os
from time import monotonic
from typing import Any

from servekit.ipc.batches import EnvelopePart, Freed, Open, Part, Parts, Slab
from servekit.ipc.channel import FrameTooLarge, encode_frame
from servekit.worker.prediction.current_batch import OpenItem
from servekit.worker.prediction.runs import Run
from servekit.worker.serving.batch_server import BatchServer, answer_with
from servekit.worker.serving.loaded import Loaded
from servekit.worker.streaming.stepping import Stepping
from servekit.worker.streaming.stream import Stream
from servekit.worker.streaming.streams import ActiveStreams
from servekit.worker.transport.channel import FrontEndChannel

__all__ = ["StreamServer"]

ALIVE_S = 0.5  #: a front-end gets a message at least so often while it waits for streams


class StreamServer(BatchServer):
    """Serves a loaded service whose outputs come one by one."""

    def __init__(self, stepping: Stepping, loaded: Loaded, *arguments: Any) -> None:
        """Drive *loaded* by *stepping*; see ``BatchServer`` for the rest."""
        super().__init__(loaded, *arguments)
        self._slots = self._launch.max_batch_size
        self._streams = ActiveStreams(stepping, loaded.predictor, self._envelopes, self._slots)
        self._sent: dict[FrontEndChannel, float] = {}  #: when each front-end last got a message

    def run(self) -> int:
        """Serve until the supervisor says stop or is gone; return the exit status."""
        try:
            return super().run()
        finally:
            self._streams.close()

    def _serve(self, timeout_ms: int | None = None) -> None:
        super()._serve(0 if self._streams.is_busy else timeout_ms)
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
        found, predictor = self._loaded.methods.find(item.calls), self._loaded.predictor
        if item.protocol is not None and item.protocol.part is not EnvelopePart.BOTH:
            self._answer(channel, message, item)
        elif found is predictor:
            self._streams.put(Stream(message, item, channel))
        elif isinstance(found, Run) and found.last is predictor:
            self._streams.put(Stream(message, item, channel, found))
        else:
            self._answer(channel, message, item)

    def _answer(self, channel: FrontEndChannel, message: Open, item: OpenItem) -> None:
        """Answer a request whose target does not stream."""
        speaker = self._enveloped() if item.protocol else self._loaded.methods.of([item])
        result = answer_with(speaker, [item], message.stream, None)
        self._is_leaving |= speaker.is_leaving
        (end,) = channel.shared.lay_out(result.answers, result.pieces)
        response = result.responses.get(0)
        self._send_parts(channel, [Part(message.stream, "", b"", 1, end, response, result.steps)])

    def _close(self, channel: FrontEndChannel) -> None:
        super()._close(channel)
        self._sent.pop(channel, None)
        self._streams.leave(channel)

    def _turn(self) -> None:
        found: dict[FrontEndChannel, list[Part]] = {}
        for stream, part in self._streams.turn():
            found.setdefault(stream.channel, []).append(part)
        self._is_leaving |= self._loaded.predictor.is_leaving or self._streams.is_leaving
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
