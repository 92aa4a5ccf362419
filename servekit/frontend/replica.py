# SPDX-License-Identifier: Apache-2.0
"""A replica as a front-end sees it: one channel, one batch at a time.

The channel follows the worker that fills the replica: it opens when the routing table
says that a new generation serves, and closes when the worker goes.
"""

from __future__ import annotations

import contextlib
import socket
from bisect import bisect_left
from time import monotonic
from typing import TYPE_CHECKING, Any

from gevent.monkey import get_original
from msgspec import json

from servekit.channel import ChannelClosed, FrameReader, FrameTooLarge, encode_frame
from servekit.errors import DeadlineExceeded, RequestError, WorkerLost, error_class
from servekit.frontend import metrics
from servekit.messages import Hello, Hung, Ping, Pong, Predict, Reply, ReplyMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.errors import ServekitError
    from servekit.frontend.answer import AnswerHeads
    from servekit.frontend.batcher import Batcher
    from servekit.frontend.task import Task
    from servekit.messages import ReplicaRow

__all__ = ["PING_S", "Replica"]

PING_S = 2.0  #: an idle replica is asked for a sign of life after so long a silence
READ, WRITE = 1, 2


class Replica:
    """One channel to one worker; belongs to its ``Batcher``."""

    def __init__(
        self, batcher: Batcher, loop: Any, heads: AnswerHeads, report: Callable[[Hung], None]
    ) -> None:
        """Stay closed until ``update`` names a serving generation.

        :param report: tells the supervisor that the worker hangs.
        """
        self._batcher = batcher
        self._loop = loop
        self._heads = heads
        self._report = report
        self._socket: socket.socket | None = None
        self._generation = 0  #: the last generation a channel was opened for
        self._is_greeted = False
        self._is_given_up = False
        self.batch: list[Task] | None = None
        self._batch_id = 0
        self._sent_at = 0.0
        self._heard_at = 0.0
        self._pinged_at = 0.0
        self.ping_failure = ""

    # ------------------------------------------------------------ the channel's life

    def update(self, row: ReplicaRow) -> None:
        """Open the channel when a generation serves that we have not seen."""
        self.row = row
        if self._socket is None and row.state == "serving" and row.generation > self._generation:
            self._generation = row.generation
            self._open(row.address)

    @property
    def is_live(self) -> bool:
        """The worker answered recently, or has a batch within its time."""
        silence = monotonic() - self._heard_at
        return (
            self._is_greeted
            and not self._is_given_up
            and not self.ping_failure
            and (self.batch is not None or silence < self._batcher.silence_s)
        )

    def _open(self, address: str) -> None:
        sock = get_original("socket", "socket")(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.setblocking(False)
        try:
            sock.connect(address)
        except OSError:  # the listener's backlog is full: we try again
            sock.close()
            self._generation -= 1
            return
        self._socket = sock
        self._reader: FrameReader[Any] = FrameReader(sock, ReplyMessage)
        self._buffer = bytearray()
        self._rest: memoryview | None = None
        self._is_greeted = self._is_given_up = False
        self.ping_failure = ""
        self._heard_at = monotonic()
        self._readable = self._loop.io(sock.fileno(), READ)
        self._readable.start(self._on_readable)
        self._writable = self._loop.io(sock.fileno(), WRITE)

    def close(self) -> None:
        """Close the channel; what it holds is answered with 503."""
        if self._socket is None:
            return
        for watcher in (self._readable, self._writable):
            watcher.stop()
            watcher.close()
        self._socket.close()
        self._socket, self._is_greeted = None, False
        with contextlib.suppress(ValueError):
            self._batcher.idle.remove(self)
        batch, self.batch = self.batch, None
        for task in batch or ():
            self._fail(task, WorkerLost())

    # ------------------------------------------------------------ one batch out, its answers back

    def send(self, batch: list[Task], now: float) -> None:
        """Hand *batch* to the worker. Only an idle replica is sent a batch."""
        self.batch = batch
        self._batch_id += 1
        self._sent_at = now
        message = Predict(self._batch_id, [task.item for task in batch])
        try:
            self._write(encode_frame(message, self._buffer))
        except FrameTooLarge:
            self.close()

    def _write(self, frame: bytearray) -> None:
        try:
            sent = self._socket.send(frame)  # type: ignore[union-attr]
        except BlockingIOError:
            sent = 0
        except OSError:
            self.close()
            return
        if sent < len(frame):
            self._rest = memoryview(frame)[sent:]
            self._writable.start(self._on_writable)

    def _on_writable(self) -> None:
        assert self._rest is not None
        try:
            sent = self._socket.send(self._rest)  # type: ignore[union-attr]
        except BlockingIOError:
            return
        except OSError:
            self._rest = None
            self.close()
            return
        self._rest = self._rest[sent:]
        if not self._rest:
            self._rest = None
            self._writable.stop()

    def _on_readable(self) -> None:
        try:
            messages = self._reader.read()
        except BlockingIOError:
            return
        except (ChannelClosed, OSError):
            self.close()
            return
        for message in messages:
            self._heard_at = monotonic()
            if type(message) is Reply:
                self._on_reply(message)
            else:
                self._on_sign_of_life(message)

    def _on_sign_of_life(self, message: Hello | Pong) -> None:
        if isinstance(message, Hello):
            self._generation = max(self._generation, message.generation)
            self._is_greeted = True
            self._become_idle()
        else:
            self.ping_failure = message.reason

    def _become_idle(self) -> None:
        self._batcher.idle.append(self)
        self._batcher.dispatch()

    def _on_reply(self, reply: Reply) -> None:
        batch = self.batch
        if batch is None or reply.batch != self._batch_id or len(reply.answers) != len(batch):
            self.close()  # an answer for another batch: the channel is in doubt
            return
        self.batch = None
        sent_at = self._sent_at
        self._become_idle()  # the worker gets its next batch before we write the answers
        self._answer(batch, reply, sent_at)

    def _answer(self, batch: list[Task], reply: Reply, sent_at: float) -> None:
        now = self._heard_at
        worker_s = reply.decode_s + reply.predict_s + reply.encode_s
        timing = b"batch;dur=%.3f;desc=%d, predict;dur=%.3f, encode;dur=%.3f, ipc;dur=%.3f" % (
            reply.decode_s * 1e3,
            len(batch),
            reply.predict_s * 1e3,
            reply.encode_s * 1e3,
            max(0.0, now - sent_at - worker_s) * 1e3,
        )
        count = self._batcher.metrics
        count.observe_batch(len(batch), sent_at - batch[0].arrived, reply.predict_s)
        values, bounds, head = count.values, metrics.DURATIONS, self._heads.ok
        answered = 0
        for task, (error, media_type, body) in zip(batch, reply.answers, strict=True):
            duration = now - task.arrived
            values[metrics.REQUESTS + bisect_left(bounds, duration)] += 1
            values[metrics.REQUESTS_SUM] += duration
            if task.is_done:
                continue
            if error:
                self._fail(task, _error_from(error, body))
                continue
            task.is_done = True
            answered += 1
            task.connection.answer(
                b"%b%b\r\nServer-Timing: queue;dur=%.3f, %b\r\nContent-Length: %d\r\n"
                % (
                    head(media_type),
                    task.request_id.encode(),
                    (sent_at - task.arrived) * 1e3,
                    timing,
                    len(body),
                ),
                body,
            )
        values[metrics.OK] += answered

    def _fail(self, task: Task, error: ServekitError) -> None:
        if not task.is_done:
            self._batcher.metrics.count_status(error.status)
            task.fail(error)

    # ------------------------------------------------------------ time

    def expire(self, now: float) -> None:
        """Answer 504 to members past their deadline; give up a worker that hangs."""
        for task in self.batch or ():
            if task.deadline <= now:
                self._fail(task, DeadlineExceeded())
        if self._socket is None:
            self.update(self.row)  # the listener's backlog may have been full
        elif not self._is_given_up:
            self._check_life(now)

    def _check_life(self, now: float) -> None:
        if self.batch is not None:
            if now - self._sent_at > self._batcher.hang_after_s:
                self._give_up(f"predict took longer than {self._batcher.predict_timeout_s:g} s")
        elif now - self._heard_at > self._batcher.silence_s:
            self._give_up(f"did not answer for {self._batcher.silence_s:g} s")
        elif self._is_greeted and now - max(self._heard_at, self._pinged_at) > PING_S:
            self._pinged_at = now
            self._write(encode_frame(Ping()))

    def _give_up(self, reason: str) -> None:
        self._is_given_up = True
        with contextlib.suppress(ValueError):
            self._batcher.idle.remove(self)
        self._report(Hung(self._batcher.row.name, self.row.index, self._generation, reason))


def _error_from(name: str, body: bytes) -> ServekitError:
    """Rebuild an error that crossed the channel; what is not the client's to fix says no more."""
    kind = error_class(name)
    if not issubclass(kind, RequestError):
        return kind()
    said = json.decode(body)
    return kind(said.get("detail", ""), said.get("errors", ()))
