# SPDX-License-Identifier: Apache-2.0
"""The loop of a worker that is ready: one poll over the supervisor and the front-ends."""

import os
import select
import socket
import struct
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from servekit.errors import ResultNotEncodable
from servekit.ipc.batches import Freed, Hello, Open, Ping, Pong, Predict, Reply
from servekit.ipc.channel import FrameReader, encode_frame, send_first
from servekit.ipc.control import Launch, Retire, Stop
from servekit.worker.envelopes.batch import EnvelopedBatch
from servekit.worker.envelopes.table import EnvelopeTable
from servekit.worker.prediction.error_answers import error_answer
from servekit.worker.process.heap import Heap
from servekit.worker.process.log import report
from servekit.worker.serving.batch_answer import answer_with
from servekit.worker.serving.busy_poll import BusyPoll
from servekit.worker.serving.loaded import Loaded
from servekit.worker.transport.channel import FrontEndChannel, SharedBodies, peer_user

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from servekit.service.spans import SpanRecorder
    from servekit.worker.prediction.batch_result import BatchResult
    from servekit.worker.prediction.current_batch import OpenItem
    from servekit.worker.prediction.methods import Mixed
    from servekit.worker.prediction.predictor import Predictor
    from servekit.worker.prediction.runs import Run

    Speaker = Predictor | Run | Mixed

__all__ = ["PROTOCOL_OF", "BatchServer"]

SEND_TIMEOUT_S = 30  #: a front-end that reads no answer in this time is disconnected
TIMEVAL = struct.Struct("ll")
PROTOCOL_OF = attrgetter("protocol")


class BatchServer:
    """Serves one loaded service to the supervisor on *control* and to front-ends."""

    _slots = 0  #: requests at the same time
    _is_async = False  #: they are tasks of an event loop

    def __init__(
        self,
        loaded: Loaded,
        control: socket.socket,
        reader: FrameReader[Any],
        listener: socket.socket,
        launch: Launch,
    ) -> None:
        """Take over both sockets; ``run`` serves them.

        :param reader: of *control*.
        """
        self._loaded, self._launch = loaded, launch
        if loaded.calls is not None:
            loaded.calls.is_serving = True
        self._control, self._control_reader, self._listener = control, reader, listener
        self._channels: dict[int, FrontEndChannel] = {}
        self._buffer = bytearray()
        self._poll: select.poll | select.epoll = select.poll()
        self._busy_poll = BusyPoll(self._poll, launch.busy_poll_s)
        self._is_stopping = self._is_retiring = self._is_forked = self._is_leaving = False
        self._handlers: dict[int, Callable[[], None]] = {
            control.fileno(): self._on_control,
            listener.fileno(): self._on_connection,
        }
        self._users = {os.getuid(), peer_user(control)}
        self._heap = Heap(launch.memory_bytes)
        colocated = {name: each.interface for name, each in loaded.colocated.items()}
        self._envelopes = EnvelopeTable(loaded.interface, loaded.codecs, launch, colocated)
        self._enveloped = EnvelopedBatch(self._envelopes, loaded.methods, launch.max_batch_size)

    def run(self) -> int:
        """Serve until the supervisor says stop or is gone; return the exit status."""
        for descriptor in self._handlers:
            self._poll.register(descriptor, select.POLLIN)
        while not (self._is_stopping or self._is_leaving):
            self._serve()
        return int(self._is_leaving)

    def _serve(self, timeout_ms: int | None = None) -> None:
        """Handle what has arrived. Blocks until something arrives, or until the timeout."""
        found = self._poll.poll(timeout_ms) if timeout_ms is not None else self._busy_poll.wait()
        for descriptor, _ in found:
            handle = self._handlers.get(descriptor)
            if handle is not None:
                handle()
            elif descriptor in self._channels:
                self._on_channel(self._channels[descriptor])
            self._is_stopping |= self._is_retiring and not self._channels
            if self._is_stopping or self._is_leaving:
                return

    def forsake(self) -> None:
        """Close every socket, in a child that the service has forked."""
        self._is_forked = True
        for sock in (self._control, self._listener, *(c.sock for c in self._channels.values())):
            sock.close()
        if self._loaded.calls is not None:
            self._loaded.calls.forsake()

    # ------------------------------------------------------------ the supervisor

    def _on_control(self) -> None:
        try:
            messages = self._control_reader.read()
        except OSError:
            self._is_stopping = True
            return
        self._is_retiring |= any(isinstance(message, Retire) for message in messages)
        self._is_stopping |= any(isinstance(message, Stop) for message in messages)

    # ------------------------------------------------------------ the front-ends

    def _on_connection(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return  # the peer has disconnected, or there are no descriptors left
        if peer_user(sock) not in self._users:
            sock.close()
            return
        timeout = TIMEVAL.pack(SEND_TIMEOUT_S, 0)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)
        shared = SharedBodies(self._launch.arena_bytes, self._launch.large_body_bytes)
        channel = FrontEndChannel(sock, shared)
        self._channels[sock.fileno()] = channel
        self._poll.register(sock, select.POLLIN)
        try:
            self._greet(channel)
        except OSError:
            self._close(channel)

    def _greet(self, channel: FrontEndChannel) -> None:
        """Send the first message, with the descriptors that the front-end needs."""
        hello = Hello(self._launch.generation, self._slots, self._is_async)
        descriptors = [channel.shared.arena.descriptor, *self._loaded.measures]
        if self._loaded.calls is None:
            send_first(channel.sock, hello, *descriptors)
            return
        channel.calls = self._loaded.calls.open()
        with channel.calls.other as other:
            send_first(channel.sock, hello, *descriptors, other.fileno())

    def _on_channel(self, channel: FrontEndChannel) -> None:
        try:
            messages = channel.read()
        except OSError:  # includes ChannelClosed
            self._close(channel)
            return
        for message in messages:
            if channel.sock.fileno() < 0:
                return
            if isinstance(message, Predict):
                self._heap.work()
                self._predict(channel, message)
            elif isinstance(message, Ping):
                self._pong(channel)
            elif isinstance(message, Freed):
                channel.shared.free(message.offsets)
            elif isinstance(message, Open):
                self._open(channel, message)

    def _open(self, channel: FrontEndChannel, message: Open) -> None:  # noqa: ARG002
        self._close(channel)  # ``Hello`` said that there are no slots

    def _predict(self, channel: FrontEndChannel, message: Predict) -> None:
        shared, loaded = channel.shared, self._loaded
        shared.free(message.freed)
        if channel.calls is not None and loaded.calls is not None:
            loaded.calls.prefer(channel.calls)
        found = loaded.methods.of(message.items)
        try:
            items = shared.look(message.items, found.takes_view)
        except OSError:  # ChannelClosed: a slab outside the arena
            self._close(channel)
            return
        has_protocols = any(map(PROTOCOL_OF, items))
        speaker = self._enveloped if has_protocols else found
        recorder = self._recorder_of(channel, items)
        result = answer_with(recorder, speaker, items, message.batch, shared.cancelled)
        if self._is_forked:  # predict forked, and this is the child; the parent answers
            os._exit(0)
        self._is_leaving = is_last = speaker.is_leaving
        self._reply(channel, Reply(message.batch, is_last=is_last), result, items)

    def _reply(
        self,
        channel: FrontEndChannel,
        reply: Reply,
        result: "BatchResult",
        items: "Sequence[OpenItem]",
    ) -> None:
        """Send *reply*, which has no answers yet, with those of *result* to *items*."""
        shared = channel.shared
        try:
            reply.answers = shared.lay_out(result.answers, result.pieces)
            reply.decode_s, reply.predict_s, reply.encode_s = result.times
            reply.held, reply.responses = shared.let_go(), result.responses
            reply.steps, reply.sizes = result.steps, result.sizes
            reply.cost, reply.trace = result.cost, result.trace
            frame = encode_frame(reply, self._buffer)
        except Exception as error:  # noqa: BLE001 - too large, or of types that no check has foreseen
            ids = [item.request_id for item in items]
            report(f"the answers of a batch cannot be sent: {error}", None, ids)
            shared.drop(reply.answers)
            reply.answers = [error_answer(ResultNotEncodable())] * len(items)
            reply.held, reply.responses, reply.steps = shared.let_go(), {}, {}
            reply.sizes, reply.trace = [], None
            frame = encode_frame(reply, self._buffer)
        self._send(channel, frame)

    def _recorder_of(
        self, channel: FrontEndChannel, items: "Sequence[OpenItem]"
    ) -> "SpanRecorder | None":
        """Return what records the spans of *items*, if its front-end wants them."""
        return self._loaded.tracing.recorder_of(items) if channel.is_sampling else None

    def _pong(self, channel: FrontEndChannel) -> None:
        self._send_pong(channel, self._ping())

    def _send_pong(self, channel: FrontEndChannel, reason: str) -> None:
        """Send *reason*, as ``_ping`` returns it, and use the quiet moment."""
        self._send(channel, encode_frame(Pong(reason)))
        if held := channel.shared.held:
            freed = set(held).difference(channel.shared.let_go())
            self._send(channel, encode_frame(Freed(sorted(freed))))
        self._heap.rest()

    def _ping(self) -> str:
        """Return the name of the error that a service's ``ping`` raises; "" if it raises none."""
        try:
            for service in self._loaded.services:
                service.ping()
        except BaseException as error:  # noqa: BLE001 - an author's ping may raise anything
            report("ping failed", error)
            return type(error).__name__
        return ""

    def _send(self, channel: FrontEndChannel, frame: bytearray) -> None:
        try:
            channel.sock.sendall(frame)
        except OSError:
            pass
        else:
            return
        self._close(channel)  # not above: its errors would come with both tracebacks

    def _close(self, channel: FrontEndChannel) -> None:
        descriptor = channel.sock.fileno()
        if self._channels.pop(descriptor, None):
            self._poll.unregister(descriptor)
            channel.shared.close()
            if channel.calls is not None and self._loaded.calls is not None:
                self._loaded.calls.close(channel.calls)
        channel.sock.close()
