# SPDX-License-Identifier: Apache-2.0
"""Streams of an async service: each is a task that sends its outputs as they come."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

from servekit.worker.coroutines.loop import is_being_cancelled
from servekit.worker.envelopes.batch import CancelledInputs
from servekit.worker.streaming.opening import StreamOpener
from servekit.worker.streaming.stepping import Advance

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.ipc.batches import Part
    from servekit.worker.coroutines.streamer import AsyncStreamer
    from servekit.worker.envelopes.table import EnvelopeTable
    from servekit.worker.prediction.current_batch import OpenItem
    from servekit.worker.streaming.stream import Stream

__all__ = ["AsyncStreams"]


class AsyncStreams:
    """Runs streams of one worker. An error in one ends only that one."""

    def __init__(
        self, envelopes: EnvelopeTable, max_answer_bytes: int, room: asyncio.Semaphore
    ) -> None:
        """Read the requests of protocols with *envelopes*; each stream takes a place in *room*."""
        self._room = room
        self._opener = StreamOpener(envelopes, max_answer_bytes)

    async def run(
        self, streamer: AsyncStreamer, stream: Stream, send: Callable[[Part], None]
    ) -> Part:
        """Send the parts of *stream*, and return the last one. Raises only ``CancelledError``.

        :param streamer: has the method that streams.
        """
        try:
            item = self._opener.item_of(stream)
            stream.item.deadline = item.deadline  # later, if it is streamed
            async with self._room:
                return await self._run(streamer, stream, item, send)
        except BaseException as error:
            if is_being_cancelled(error):
                raise
            return stream.failed(streamer.failed("stream", error, [stream.item.request_id]))

    async def _run(
        self,
        streamer: AsyncStreamer,
        stream: Stream,
        item: OpenItem,
        send: Callable[[Part], None],
    ) -> Part:
        message, cancelled = stream.message, stream.channel.shared.cancelled
        gone = None if cancelled is None else CancelledInputs(cancelled, (message.place,))
        value, stream.request = await streamer.open(item, message.stream, gone)
        async with aclosing(streamer.outputs(value)) as found:
            async for outputs in found:
                if (part := self._part(stream, Advance(outputs))) is not None:
                    send(part)
                await asyncio.sleep(0)  # streams that never wait take turns
        last = self._part(stream, Advance(is_over=True))
        assert last is not None  # a stream that is over always has one
        return last

    def _part(self, stream: Stream, advance: Advance) -> Part | None:
        try:
            return stream.part(advance, self._opener.write)
        except BaseException as error:
            blamed = self._opener.blamed(error, stream)
            if blamed is error:
                raise
            raise blamed from error
