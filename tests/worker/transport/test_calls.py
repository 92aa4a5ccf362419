# SPDX-License-Identifier: Apache-2.0
"""Calls of other models: what a front-end is asked, what the service gets, and when a call ends."""

import asyncio
import math
import socket
from threading import Event, Thread
from time import monotonic

import numpy as np
import pytest

from servekit.errors import CallError, CallUnavailable
from servekit.ipc.calls import CallAnswer, CallRequest, CancelCall, ModelCall
from servekit.ipc.channel import FrameReader, encode_frame
from servekit.ipc.trace_context import TraceContext
from servekit.service.identity import Identity
from servekit.service.request import Request
from servekit.service.spans import SpanRecorder, span
from servekit.worker.codecs.value import value as codec
from servekit.worker.transport.calls import CallSockets, call_of

WAIT_S = 60.0


class FrontEnd:
    """The other end of the socket of a worker."""

    def __init__(self, sockets):
        self.calls = sockets.open()
        self.sock = self.calls.other
        self.sock.settimeout(WAIT_S)
        self._reader = FrameReader(self.sock, CallRequest)
        self._heard = []

    def hear(self):
        while not self._heard:
            self._heard = self._reader.read()
        return self._heard.pop(0)

    def answer(self, call, value=None, status=200, **members):
        body = codec.encode(value) if value is not None else b""
        self.sock.sendall(encode_frame(CallAnswer(call.number, status, body, **members)))


@pytest.fixture
def sockets():
    found = CallSockets(["other"])
    found.is_serving = True
    return found


@pytest.fixture
def front_end(sockets):
    front_end = FrontEnd(sockets)
    yield front_end
    front_end.sock.close()
    sockets.close(front_end.calls)


def refuse(model, value):
    raise AssertionError("there is a server")


@pytest.fixture
def caller(sockets):
    return sockets.caller(refuse)


def request(request_id="r1", deadline=math.inf, **members):
    return Request("", b"", request_id, lambda: None, deadline, **members)


class Calling:
    """A call in a thread."""

    def __init__(self, caller, value, requests=()):
        self.outcome = None
        self._thread = Thread(target=self._run, args=(caller, value, requests))
        self._thread.start()

    def _run(self, caller, value, requests):
        try:
            self.outcome = caller.call("other", value, requests)
        except CallError as error:
            self.outcome = error

    def result(self):
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive(), "the call goes on"
        return self.outcome


def test_a_call_has_the_value_and_what_it_inherits(front_end, caller):
    identity = Identity("ada", {"team": "x"})
    headers = {"traceparent": "00-1"}
    asking = request("r7", monotonic() + 60, headers=headers, identity=identity)
    calling = Calling(caller, {"x": np.arange(3)}, [asking])
    call = front_end.hear()
    front_end.answer(call, [1, 2])

    assert (call.model, call.request_id, call.headers) == ("other", "r7", headers)
    assert (call.deadline, call.identity) == (asking.deadline, ("ada", {"team": "x"}))
    assert codec.decode(call.body, {})["x"].tolist() == [0, 1, 2]
    assert calling.result() == [1, 2]


def test_a_call_for_a_batch_has_the_last_deadline_and_no_identity_that_not_all_share(
    front_end, caller
):
    soon, late = monotonic() + 30, monotonic() + 60
    asking = [request("a", soon, identity=Identity("a")), request("b", late)]
    calling = Calling(caller, 1, asking)
    call = front_end.hear()
    front_end.answer(call, 2)

    assert (call.request_id, call.deadline, call.identity) == ("a", late, None)
    assert calling.result() == 2


def test_a_call_of_no_request_has_an_id_of_its_own(front_end, caller):
    calling = Calling(caller, 1)
    call = front_end.hear()
    front_end.answer(call, 2)

    assert (len(call.request_id), call.deadline) == (32, math.inf)
    assert calling.result() == 2


def test_calls_of_several_threads_get_their_own_answers(front_end, caller):
    calling = [Calling(caller, number) for number in range(8)]
    for call in [front_end.hear() for _ in calling][::-1]:
        front_end.answer(call, codec.decode(call.body, {}) * 10)

    assert [each.result() for each in calling] == [0, 10, 20, 30, 40, 50, 60, 70]


@pytest.mark.parametrize(
    ("status", "kind"),
    [(422, CallError), (404, CallError), (500, CallError), (507, CallError),
     (429, CallUnavailable), (503, CallUnavailable), (504, CallUnavailable)],
)  # fmt: skip
def test_an_error_of_the_model_is_raised_with_its_status(front_end, caller, status, kind):
    calling = Calling(caller, 1)
    fields = [{"field": "x", "message": "is odd"}]
    front_end.answer(front_end.hear(), None, status, detail="no", errors=fields)
    error = calling.result()

    assert type(error) is kind
    assert (error.model, error.called_status, error.detail) == ("other", status, "no")
    assert error.errors == fields
    assert str(error) == f"other answered {status}: no"


def test_a_response_with_an_error_status_is_an_error_too(front_end, caller):
    calling = Calling(caller, 1)
    front_end.answer(front_end.hear(), "gone for lunch", 409)
    error = calling.result()

    assert (error.called_status, error.detail) == (409, "gone for lunch")


def test_a_call_ends_when_no_client_waits_any_more(front_end, caller):
    gone = Event()
    calling = Calling(caller, 1, [request("a", has_gone=gone.is_set), request("b", has_gone=bool)])
    call = front_end.hear()
    front_end.answer(call, 2)
    first = calling.result()
    calling = Calling(caller, 1, [request("a", has_gone=gone.is_set)])
    call = front_end.hear()
    gone.set()
    cancelled = front_end.hear()
    error = calling.result()

    assert first == 2
    assert cancelled == CancelCall(call.number)
    assert (type(error), error.called_status) == (CallUnavailable, 504)


def test_a_deadline_ends_the_call_even_if_no_answer_comes(front_end, caller):
    error = Calling(caller, 1, [request("a", monotonic() + 0.1)]).result()

    assert (type(error), error.called_status) == (CallUnavailable, 504)


def test_a_front_end_that_goes_ends_its_calls_and_another_one_gets_the_next(
    sockets, front_end, caller
):
    other = FrontEnd(sockets)
    calling = Calling(caller, 1)
    other.hear()
    other.sock.close()
    error = calling.result()
    sockets.close(other.calls)
    calling = Calling(caller, 1)
    front_end.answer(front_end.hear(), 2)

    assert (type(error), error.called_status) == (CallUnavailable, 503)
    assert calling.result() == 2


def test_calls_go_to_the_front_end_that_is_preferred(sockets, front_end, caller):
    other = FrontEnd(sockets)
    sockets.prefer(front_end.calls)
    calling = Calling(caller, 1)
    front_end.answer(front_end.hear(), 2)
    result = calling.result()
    other.sock.close()
    sockets.close(other.calls)

    assert result == 2


def test_without_a_front_end_a_call_is_unavailable(caller):
    assert Calling(caller, 1).result().called_status == 503


def test_large_values_pass(front_end, caller):
    calling = Calling(caller, np.zeros(1_000_000))
    call = front_end.hear()
    Thread(target=front_end.answer, args=(call, codec.decode(call.body, {}) + 1)).start()

    assert calling.result().sum() == 1_000_000


def test_a_value_that_cannot_be_sent_is_an_error_here(front_end, caller):
    error = Calling(caller, object()).result()

    assert (error.called_status, "cannot be sent" in error.detail) == (400, True)


def test_a_model_that_is_not_named_is_refused(front_end, caller):
    with pytest.raises(CallError, match="third answered 403: calls in"):
        caller.call("third", 1, ())


def test_several_calls_wait_together_in_asyncio(front_end, caller):
    async def call_all():
        return await asyncio.gather(*(caller.call_async("other", n, ()) for n in range(3)))

    results = []
    thread = Thread(target=lambda: results.extend(asyncio.run(call_all())))
    thread.start()
    for call in [front_end.hear() for _ in range(3)]:
        front_end.answer(call, codec.decode(call.body, {}) + 1)
    thread.join(WAIT_S)

    assert results == [1, 2, 3]


def test_a_task_that_is_cancelled_ends_its_call(front_end, caller):
    async def call_and_cancel():
        task = asyncio.ensure_future(caller.call_async("other", 1, ()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(call_and_cancel())
    call = front_end.hear()

    assert isinstance(call, ModelCall)
    assert front_end.hear() == CancelCall(call.number)


def test_until_the_worker_serves_a_stand_in_answers(sockets):
    sockets.is_serving = False
    caller = sockets.caller(lambda model, value: (model, value))

    assert caller.call("other", 1, ()) == ("other", 1)
    assert asyncio.run(caller.call_async("other", 2, ())) == ("other", 2)


def test_a_child_that_the_service_forks_has_no_socket(sockets, front_end, caller):
    descriptor = front_end.calls._socket.fileno()
    sockets.forsake()

    with pytest.raises(OSError, match="Bad file descriptor"):
        socket.socket(fileno=descriptor)


def test_a_call_within_a_traced_batch_is_inside_the_active_span():
    traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    recorder = SpanRecorder(TraceContext.parse(traceparent), lambda _span: lambda: None)
    asking = request("r", monotonic() + 60, headers={"traceparent": traceparent})
    with recorder.active(), span("ask") as active:
        call = call_of("other", b"", [asking])

    assert call.headers == {"traceparent": active.traceparent}
    assert call_of("other", b"", [asking]).headers == {"traceparent": traceparent}
