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
from servekit.worker.streaming.stream import Siblings, StreamInput

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from servekit.ipc.batches import Part
    from servekit.worker.coroutines.streamer import AsyncStreamer
    from servekit.worker.envelopes.table import EnvelopeTable
    from servekit.worker.prediction.current_batch import OpenItem
    from servekit.worker.streaming.stream import Stream

__all__ = ["AsyncStreams"]


class Unwritable(Exception):
    """An output cannot be written, which ends its request."""

    def __init__(self, last: Part) -> None:
        """*last* has the error that the client gets."""
        super().__init__()
        self.last = last


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
            items = self._opener.items_of(stream)
            if len(items) == 1:
                stream.input = StreamInput(items[0])
                stream.item.deadline = items[0].deadline  # later, if it is streamed
                last = await self._run(streamer, stream, send)
                assert last is not None  # a stream that is over always has one
            else:
                last = await self._run_all(streamer, stream, items, send)
        except Unwritable as error:
            return error.last
        except BaseException as error:
            if is_being_cancelled(error):
                raise
            return stream.failed(streamer.failed("stream", error, [stream.item.request_id]))
        return last

    async def _run_all(
        self,
        streamer: AsyncStreamer,
        stream: Stream,
        items: Sequence[OpenItem],
        send: Callable[[Part], None],
    ) -> Part:
        """Return the last part of a request with any number of inputs."""
        streams = Siblings(stream, items).streams
        try:
            async with asyncio.TaskGroup() as group:
                runs = [self._run(streamer, each, send) for each in streams]
                tasks = [group.create_task(run) for run in runs]
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        parts = [part for task in tasks if (part := task.result()) is not None]
        return parts[0] if parts else stream.whole(())

    async def _run(
        self, streamer: AsyncStreamer, stream: Stream, send: Callable[[Part], None]
    ) -> Part | None:
        """Run *stream* to its end, and return the last part of its request, if it has that.

        Raises what the service raises.

        :raises Unwritable: the envelope raised something.
        """
        message, cancelled = stream.message, stream.channel.shared.cancelled
        gone = None if cancelled is None else CancelledInputs(cancelled, (message.place,))
        assert stream.input is not None
        async with self._room:
            value, stream.request = await streamer.open(stream.input.item, message.stream, gone)
            async with aclosing(streamer.outputs(value)) as found:
                async for outputs in found:
                    self._send(stream, Advance(outputs), send)
                    await asyncio.sleep(0)  # streams that never wait take turns
            return self._send(stream, Advance(is_over=True), send)

    def _send(self, stream: Stream, advance: Advance, send: Callable[[Part], None]) -> Part | None:
        """Send what *advance* brings; or return it, if it ends the request."""
        part = self._part(stream, advance)
        if part is None:
            return None
        if part.end is None:
            send(part)
            return None
        if part.end[0]:
            raise Unwritable(part)
        return part

    def _part(self, stream: Stream, advance: Advance) -> Part | None:
        try:
            return stream.part(advance, self._opener.write)
        except BaseException as error:
            blamed = self._opener.blamed(error, stream)
            if blamed is error:
                raise
            raise blamed from error
