# SPDX-License-Identifier: Apache-2.0
"""Calls of other models: sent to a front-end, or answered by a stand-in where there is no server.

A thread reads the answers while calls are open. It also looks now and then whether anybody still
waits for them, so that a call ends with the requests that it is made for.
"""

import math
import os
import select
import socket
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

from servekit.errors import CallError, CallUnavailable, ResultNotEncodable
from servekit.ipc.calls import CallAnswer, CancelCall, ModelCall
from servekit.ipc.channel import FrameReader, FrameTooLarge, encode_frame
from servekit.ipc.trace_context import TRACEPARENT
from servekit.service.calls import not_named
from servekit.service.request import Request
from servekit.service.spans import active_span
from servekit.worker.codecs.value import value as codec

__all__ = ["CallSocket", "CallSockets", "ModelCaller", "StandIn", "call_of"]

POLL_S: Final = 0.05  #: how late a call is dropped that nobody waits for any more
SEND_TIMEOUT_S: Final = 30.0  #: a front-end that reads no call in this time gets no others
REFUSED: Final = 400  #: statuses from here on are no outputs
TEMPORARY: Final = (429, 503, 504)
GONE: Final = CallAnswer(0, 503, detail="the front-end is gone")
DROPPED: Final = CallAnswer(0, 504, detail="nobody waits for the answer any more")

#: an output in place of that of a model: called with its name and the input
StandIn = Callable[[str, Any], Any]


class PendingCall(NamedTuple):
    """A call whose answer has not come yet."""

    future: "Future[CallAnswer]"
    requests: Sequence[Request]  #: those that it is made for

    @property
    def is_wanted(self) -> bool:
        """Whether anybody still waits for it."""
        has_client = not self.requests or any(not each.is_cancelled for each in self.requests)
        return has_client and not self.future.cancelled()

    def end(self, answer: CallAnswer) -> None:
        """Pass *answer* on, unless the future was cancelled."""
        if self.future.set_running_or_notify_cancel():
            self.future.set_result(answer)


class CallSocket:
    """One end of a pair; a front-end has the other one. Used by any thread."""

    def __init__(self) -> None:
        """Make the pair; ``other`` is to be sent to a front-end, and closed."""
        self._socket, self.other = socket.socketpair()
        self._socket.settimeout(SEND_TIMEOUT_S)
        self._reader: FrameReader[CallAnswer] = FrameReader(self._socket, CallAnswer)
        self._lock = threading.Lock()
        self._open: dict[int, PendingCall] = {}
        self._last = 0
        self._is_read = False  #: a thread reads answers
        self._is_closed = False

    def start(self, call: ModelCall, requests: Sequence[Request]) -> "Future[CallAnswer]":
        """Send *call* with a number, and return what will get its answer.

        :raises FrameTooLarge: nothing was sent.
        """
        future: Future[CallAnswer] = Future()
        with self._lock:
            if self._is_closed:
                future.set_result(GONE)
                return future
            self._last += 1
            call.number = self._last
            frame = encode_frame(call)
            self._open[call.number] = PendingCall(future, requests)
            try:
                self._socket.sendall(frame)
            except OSError:
                self._end_all()
                return future
            if not self._is_read:
                self._is_read = True
                threading.Thread(target=self._read, name="calls", daemon=True).start()
        return future

    def close(self) -> None:
        """End all calls: the front-end is gone. A thread that reads notices it."""
        with self._lock:
            self._end_all()
            if not self._is_read:
                self._socket.close()

    def forsake(self) -> None:
        """Close the descriptor, in a child that the service has forked."""
        self._is_closed = True
        self._socket.close()

    def _end_all(self) -> None:
        self._is_closed = True
        calls, self._open = self._open, {}
        for call in calls.values():
            call.end(GONE)

    def _read(self) -> None:
        """Pass on answers until no call is open. Runs in: its own thread."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        while True:
            is_readable = poll.poll(POLL_S * 1000)
            try:
                answers = self._reader.read() if is_readable else []
            except OSError:  # includes ChannelClosed
                answers = None
            with self._lock:
                if answers is None:
                    self._end_all()
                for answer in answers or ():
                    if (call := self._open.pop(answer.number, None)) is not None:
                        call.end(answer)
                self._drop_unwanted()
                if not self._open:
                    self._is_read = False
                    if self._is_closed:
                        self._socket.close()
                    return

    def _drop_unwanted(self) -> None:
        for number in [number for number, call in self._open.items() if not call.is_wanted]:
            self._open.pop(number).end(DROPPED)
            try:
                self._socket.sendall(encode_frame(CancelCall(number)))
            except OSError:
                self._end_all()
                return


class CallSockets:
    """The sockets of one worker: calls go to the front-end that has sent the last batch."""

    def __init__(self, models: Collection[str]) -> None:
        """Allow calls of *models*; until ``serve``, stand-ins answer them."""
        self.models = models
        self.is_serving = False
        self._sockets: list[CallSocket] = []

    def caller(self, stand_in: StandIn) -> "ModelCaller":
        """Return what a service calls with; *stand_in* answers until the worker serves."""
        return ModelCaller(self, stand_in)

    def open(self) -> CallSocket:
        """Return a new socket, for a front-end that has connected."""
        self._sockets.append(CallSocket())
        return self._sockets[-1]

    def prefer(self, sock: CallSocket) -> None:
        """Send calls to this one from now on."""
        if self._sockets[-1] is not sock:
            self._sockets.remove(sock)
            self._sockets.append(sock)

    def close(self, sock: CallSocket) -> None:
        """The front-end of *sock* has disconnected."""
        self._sockets.remove(sock)
        sock.close()

    def forsake(self) -> None:
        """Close all descriptors, in a child that the service has forked."""
        for sock in self._sockets:
            sock.forsake()

    def start(self, call: ModelCall, requests: Sequence[Request]) -> "Future[CallAnswer]":
        """Send *call* to a front-end, and return what will get its answer."""
        if self._sockets:
            return self._sockets[-1].start(call, requests)
        future: Future[CallAnswer] = Future()
        future.set_result(GONE)
        return future


class ModelCaller:
    """Calls other models for one service."""

    def __init__(self, sockets: CallSockets, stand_in: StandIn) -> None:
        """Use *sockets* once the worker serves, and *stand_in* before."""
        self._sockets = sockets
        self._stand_in = stand_in

    def call(self, model: str, value: Any, requests: Sequence[Request]) -> Any:
        """Return the output of *model* for *value*. Blocks.

        :raises CallError: there is none.
        """
        self._check(model)
        if not self._sockets.is_serving:
            return self._stand_in(model, value)
        return output_of(model, self._start(model, value, requests).result())

    async def call_async(self, model: str, value: Any, requests: Sequence[Request]) -> Any:
        """Do the same in an event loop of asyncio."""
        from asyncio import wrap_future  # large, and loaded already where this is awaited

        self._check(model)
        if not self._sockets.is_serving:
            return self._stand_in(model, value)
        return output_of(model, await wrap_future(self._start(model, value, requests)))

    def _check(self, model: str) -> None:
        if model not in self._sockets.models:
            raise not_named(model)

    def _start(self, model: str, value: Any, requests: Sequence[Request]) -> "Future[CallAnswer]":
        try:
            body = codec.encode(value)
            return self._sockets.start(call_of(model, body, requests), requests)
        except (ResultNotEncodable, FrameTooLarge) as error:
            raise CallError(model, REFUSED, f"the input cannot be sent: {error}") from error


def call_of(model: str, body: bytes, requests: Sequence[Request]) -> ModelCall:
    """Return the call that is made on behalf of *requests*."""
    if not requests:
        return ModelCall(0, model, body, os.urandom(16).hex(), math.inf)
    first = requests[0]
    deadline = max(each.deadline for each in requests)
    call = ModelCall(0, model, body, first.request_id, deadline, dict(first.headers))
    if (active := active_span()) is not None:
        call.headers[TRACEPARENT] = active.traceparent
    identities = [each.identity for each in requests]
    if first.identity is not None and all(each == first.identity for each in identities):
        call.identity = first.identity.name, dict(first.identity.attributes)
    return call


def output_of(model: str, answer: CallAnswer) -> Any:
    """Return the output in *answer*.

    :raises CallError: there is none.
    """
    if answer.status < REFUSED:
        return codec.decode(answer.body, {})
    kind = CallUnavailable if answer.status in TEMPORARY else CallError
    detail = answer.detail
    if answer.body:  # the called service has made a ``Response`` with this status
        detail = str(codec.decode(answer.body, {}))
    raise kind(model, answer.status, detail, answer.errors)
