# SPDX-License-Identifier: Apache-2.0
"""The loop of an async worker: asyncio's, which also reads the sockets of the front-ends.

Everything happens in one thread. So a service that blocks the loop blocks the answers to pings
too, and the front-ends notice it.
"""

import asyncio
import os
import select
from functools import partial
from time import monotonic
from typing import Any, Final

from servekit.ipc.batches import ALIVE_S, Open, Part
from servekit.worker.coroutines.answering import Answering
from servekit.worker.coroutines.loop import WorkerLoop, called
from servekit.worker.coroutines.predictor import AsyncPredictor
from servekit.worker.coroutines.running import RunningRequest
from servekit.worker.coroutines.streamer import AsyncStreamer
from servekit.worker.coroutines.streams import AsyncStreams
from servekit.worker.prediction.batch_result import BatchResult
from servekit.worker.prediction.current_batch import OpenItem
from servekit.worker.prediction.error_answers import error_answer
from servekit.worker.prediction.predictor import Predictor
from servekit.worker.prediction.runs import Run
from servekit.worker.process.log import report
from servekit.worker.serving.loaded import Loaded
from servekit.worker.serving.slot_server import SlotServer
from servekit.worker.streaming.stream import Stream
from servekit.worker.transport.channel import FrontEndChannel

__all__ = ["AsyncServer"]

POLL_S: Final = 0.05  #: how late a task is cancelled whose client has disconnected
BLOCKED_S: Final = 1.0  #: a step of the event loop that takes longer is logged
QUIET_S: Final = 60.0  #: between two such lines


class AsyncServer(SlotServer):
    """Serves a loaded service whose methods are coroutines."""

    _is_async = True

    def __init__(self, loop: WorkerLoop, loaded: Loaded, *arguments: Any) -> None:
        """Run *loaded* on *loop*; see ``BatchServer`` for the rest."""
        super().__init__(loaded, *arguments)
        self._slots = self._launch.max_concurrency
        self._worker_loop, self._loop = loop, loop.loop
        self._poll = poll = select.epoll()  # unlike ``poll``, it has a descriptor to be watched
        self._ready = poll.fileno()
        room = asyncio.Semaphore(self._slots)
        self._answering = Answering(self._envelopes, room)
        self._streams = AsyncStreams(self._envelopes, self._launch.max_answer_bytes, room)
        self._running: set[RunningRequest] = set()
        self._pings: set[asyncio.Task[None]] = set()
        self._parts: dict[FrontEndChannel, list[Part]] = {}  #: to be sent at the end of this step
        self._look_at = 0.0  #: ``monotonic``: when the tasks are looked at next; 0: they are not
        self._alive_at, self._logged_at = 0.0, -QUIET_S  #: ``monotonic``

    def run(self) -> int:
        """Serve until the supervisor says stop or is gone; return the exit status."""
        for descriptor in self._handlers:
            self._poll.register(descriptor, select.POLLIN)
        self._loop.add_reader(self._ready, self._on_ready)
        try:
            while not (self._is_stopping or self._is_leaving):
                self._loop.run_forever()
        except SystemExit as error:  # raised in a task that the service has started
            report("a task failed", error)
            self._is_leaving = True
        self._loop.remove_reader(self._ready)
        running, self._running = self._running, set()
        self._worker_loop.end([request.task for request in running])
        return int(self._is_leaving)

    def _on_ready(self) -> None:
        if self._is_forked:
            os._exit(0)
        self._serve(0)
        if self._is_stopping or self._is_leaving:
            self._loop.stop()

    # ------------------------------------------------------------ tasks

    def _begin(
        self, channel: FrontEndChannel, message: Open, item: OpenItem, found: Predictor | Run
    ) -> bool:
        """Start a task for *item*, if the method that *found* calls is async."""
        if not isinstance(found, AsyncPredictor):
            return False
        request = RunningRequest(channel, message, item)
        request.task = self._loop.create_task(self._run(request, found))
        request.task.add_done_callback(partial(self._on_done, request, found))
        self._running.add(request)
        if not self._look_at:
            self._look_at = self._alive_at = monotonic()
            self._look_again()
        return True

    async def _run(self, request: RunningRequest, predictor: AsyncPredictor) -> Part | BatchResult:
        """Return the answer of *request*, or the last part of its stream, with what is recorded."""
        recorder = self._recorder_of(request.channel, (request.item,))
        if recorder is None:
            return await self._answer_one(request, predictor)
        with recorder.active():
            result = await self._answer_one(request, predictor)
        if isinstance(result, BatchResult):
            return result._replace(trace=recorder.finish())
        result.trace = recorder.finish()
        return result

    async def _answer_one(
        self, request: RunningRequest, predictor: AsyncPredictor
    ) -> Part | BatchResult:
        channel, message, item = request.channel, request.message, request.item
        if isinstance(predictor, AsyncStreamer):
            stream = Stream(message, item, channel, predictor)
            return await self._streams.run(predictor, stream, partial(self._put, channel))
        place, cancelled = message.place, channel.shared.cancelled
        return await self._answering.answer(predictor, item, message.stream, place, cancelled)

    def _on_done(
        self,
        request: RunningRequest,
        predictor: AsyncPredictor,
        task: asyncio.Task[Part | BatchResult],
    ) -> None:
        if self._is_forked:  # predict forked, and this is the child; the parent answers
            os._exit(0)
        result, channel = _result_of(request, task), request.channel
        if request not in self._running:  # the worker ends
            return
        self._running.remove(request)
        if channel.sock.fileno() >= 0:
            if isinstance(result, BatchResult):
                result = part_of(channel, request.message.stream, result)
            self._put(channel, result)
        if predictor.is_leaving:
            self._is_leaving = True
            self._flush()
            self._send_turn({})
            self._loop.stop()

    def _put(self, channel: FrontEndChannel, part: Part) -> None:
        """Send *part* together with all others of the same step of the loop."""
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.setdefault(channel, []).append(part)

    def _flush(self) -> None:
        found, self._parts = self._parts, {}
        for channel, parts in found.items():
            if channel.sock.fileno() >= 0:
                self._send_parts(channel, parts)

    def _close(self, channel: FrontEndChannel) -> None:
        super()._close(channel)
        for request in self._running:
            if request.channel is channel:
                request.task.cancel()

    # ------------------------------------------------------------ time

    def _look_again(self) -> None:
        self._look_at += POLL_S
        self._loop.call_at(self._look_at, self._look)

    def _look(self) -> None:
        """Cancel the tasks that nobody waits for, and give a sign of life while there are any."""
        now = monotonic()
        self._log_blocked(now - self._look_at, now)
        self._look_at = 0.0
        if not self._running:
            return
        for request in self._running:
            request.cancel_if_over(now)
        if now - self._alive_at >= ALIVE_S:
            self._alive_at = now
            for channel in list(self._channels.values()):
                self._send_parts(channel, [])
        self._look_at = now
        self._look_again()

    def _log_blocked(self, late_s: float, now: float) -> None:
        if late_s > BLOCKED_S and now - self._logged_at > QUIET_S:
            self._logged_at = now
            report(
                f"the event loop was blocked for {late_s:.1f} s, and no request went on; "
                "await asyncio.to_thread for what takes long",
                None,
            )

    # ------------------------------------------------------------ ping

    def _pong(self, channel: FrontEndChannel) -> None:
        task = self._loop.create_task(self._answer_ping(channel))
        self._pings.add(task)
        task.add_done_callback(self._pings.discard)

    async def _answer_ping(self, channel: FrontEndChannel) -> None:
        reason = ""
        try:
            await called(self._loaded.service.ping)
        except BaseException as error:  # noqa: BLE001 - an author's ping may raise anything
            report("ping failed", error)
            reason = type(error).__name__
        if channel.sock.fileno() >= 0:
            self._send_pong(channel, reason)


def _result_of(
    request: RunningRequest, task: asyncio.Task[Part | BatchResult]
) -> Part | BatchResult:
    """Return what *task* has returned, or the answer of its cancellation or error."""
    if task.cancelled():
        answer = request.refusal
    elif (error := task.exception()) is not None:  # a bug, or a plugin's codec
        report("request failed", error, [request.item.request_id])
        answer = error_answer(error)
    else:
        return task.result()
    return BatchResult([answer], 0.0, 0.0, 0.0, {})


def part_of(channel: FrontEndChannel, stream: int, result: BatchResult) -> Part:
    """Return the only part of request *stream* of *channel*, which *result* answers."""
    (end,) = channel.shared.lay_out(result.answers, result.pieces)
    response, trace = result.responses.get(0), result.trace
    return Part(stream, "", b"", 0, end, response, result.steps, result.times, trace)
