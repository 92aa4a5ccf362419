# SPDX-License-Identifier: Apache-2.0
"""What is copied of one call, how much memory that takes, and when copying ends."""

import pytest
from servekit_record.call_copy import CALL_BYTES, OVERHEAD_BYTES, CallCopy, CopyMemory, is_secret
from servekit_record.order import RecordingOrder

from servekit.extension import BaseExchange, HttpRequest, HttpResponse
from servekit.extension.http import NO_LENGTH

PLENTY = 32 << 20
HEADERS = {b"content-type": b"text/plain", b"authorization": b"s3cret", b"x-who": b"me"}


class CallUnderTest:
    """A call that is copied, as a transport answers it."""

    def __init__(self, limit=PLENTY, body=b"asked", **order):
        self.kept = []
        self.memory = CopyMemory(limit)
        request = HttpRequest(b"POST", b"/m/predict", HEADERS, body, True, "1.1", request_id="r")
        assert self.memory.take(CallCopy.size_of(request))
        self.exchange = BaseExchange(None)
        copy = CallCopy(RecordingOrder(**order), self.memory, request, self.kept.append)
        copy.follow(self.exchange, lambda _request: "m")
        self.exchange.model_version = b"1.0"

    def respond(self, **fields):
        """Pass a response through the filters, and return it."""
        return self.exchange.filter_stream(HttpResponse(200, **fields))

    def stream(self, *pieces, fields=()):
        head = self.respond(length=NO_LENGTH, media_type="text/event-stream", fields=fields)
        for piece in pieces:
            for watch in head.watchers:
                watch(piece)

    def end(self, status=200):
        """End the response; return what is recorded."""
        self.exchange.observe_end(status, 0)
        (copy,) = self.kept
        recorded = copy.recorded()
        copy.release()
        assert self.memory.held == 0
        return recorded


def test_a_response_is_copied_whole():
    call = CallUnderTest()
    call.respond(body=b"answered", media_type="text/plain")
    recorded = call.end()

    assert (recorded.request.text, recorded.response.text) == ("asked", "answered")
    assert (recorded.model, recorded.version, recorded.is_stream) == ("m", "1.0", False)
    assert recorded.has_whole_body


def test_a_stream_is_copied_piece_by_piece():
    call = CallUnderTest()
    call.stream(b"data: 1\n\n", b"data: 2\n\n")
    recorded = call.end()

    assert recorded.response.text == "data: 1\n\ndata: 2\n\n"
    assert recorded.has_whole_body
    assert 0 <= recorded.stream.first_s <= recorded.duration_s


def test_a_stream_whose_client_left_is_marked():
    call = CallUnderTest()
    call.stream(b"data: 1\n\n")
    recorded = call.end(status=None)

    assert recorded.stream.incomplete == "the client left"
    assert not recorded.has_whole_body


def test_a_stream_that_grows_too_large_is_marked_and_its_memory_is_free_at_once():
    call = CallUnderTest()
    call.stream(b"x" * CALL_BYTES, b"x", b"more")

    assert call.memory.held == len(b"asked") + OVERHEAD_BYTES
    recorded = call.end()
    assert (recorded.stream.incomplete, recorded.response.body) == ("larger than 4 MiB", b"")


def test_calls_together_take_no_more_memory_than_they_may():
    call = CallUnderTest(limit=OVERHEAD_BYTES + 100)
    call.stream(b"x" * 90, b"x" * 90, b"x")

    assert call.memory.held <= OVERHEAD_BYTES + 100
    assert call.end().stream.incomplete == "too many calls to be kept"


def test_nothing_is_copied_after_the_recording():
    call = CallUnderTest()
    call.stream(b"1")
    call.memory.close()
    for watch in call.respond(length=NO_LENGTH).watchers:
        watch(b"2")

    assert not call.memory.take(1)


@pytest.mark.parametrize("end", ["the client leaves", "nobody answers", "another model", "large"])
def test_what_is_not_recorded_holds_no_memory(end):
    call = CallUnderTest(model="other" if end == "another model" else "")
    if end == "nobody answers":
        call.exchange.model_version = b""
    if end != "the client leaves":
        call.respond(body=b"x" * (CALL_BYTES + 1) if end == "large" else b"1")
    call.exchange.observe_end(None if end == "the client leaves" else 200, 0)

    assert (call.kept, call.memory.held) == ([], 0)


@pytest.mark.parametrize("is_stream", [False, True])
def test_secret_fields_are_left_out_of_requests_and_responses(is_stream):
    call = CallUnderTest(redact=["x-who"])
    fields = [("Set-Cookie", "s3cret"), ("X-Who", "me"), ("X-Kept", "yes")]
    if is_stream:
        call.stream(b"data: 1\n\n", fields=fields)
    else:
        call.respond(fields=fields)
    recorded = call.end()

    assert recorded.request.headers == {"content-type": "text/plain"}
    kind = {"content-type": "text/event-stream"} if is_stream else {}
    assert recorded.response.headers == {"x-kept": "yes"} | kind


@pytest.mark.parametrize(
    "field", ["authorization", "cookie", "set-cookie", "x-api-key", "x-auth-token", "x-customer"]
)
def test_secret_fields(field):
    assert is_secret(field, ["x-customer"])
    assert not is_secret("content-type", ["x-customer"])
