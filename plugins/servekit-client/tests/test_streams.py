# SPDX-License-Identifier: Apache-2.0
"""Streams of outputs: how they are read, how they end, and what closing one does."""

import asyncio
from contextlib import aclosing

import pytest
from servekit_client import (
    AnswerMalformed,
    AsyncClient,
    Client,
    DeadlineExceeded,
    ServekitError,
    ServiceError,
    Unreachable,
)
from servekit_client.events import Events

from .conftest import WAIT_S, answer

EVENTS = "text/event-stream"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
END = b"event: end\ndata:\n\n"
FAILED = b'event: error\ndata: {"status": 500, "title": "Prediction failed"}\n\n'


@pytest.mark.parametrize(
    ("text", "outputs"),
    [
        pytest.param(b"data: 1\n\ndata: [2]\n\n", [1, [2]], id="one output for each event"),
        pytest.param(b": keep-alive\n\n:\n\ndata: 1\n\n", [1], id="comments are none"),
        pytest.param(b"data:1\r\n\r\ndata: 2\r\n\r\n", [1, 2], id="other line ends"),
        pytest.param(b"data: [1,\ndata: 2]\n\n", [[1, 2]], id="data over two lines"),
        pytest.param(b"id: 7\nretry: 1\nevent: message\ndata: 1\n\n", [1], id="more fields"),
        pytest.param(b"event: note\ndata: 1\n\n", [], id="an event of another kind is none"),
        pytest.param('data: "\u2028\x85"\n\n'.encode(), ["\u2028\x85"], id="only line ends end"),
        pytest.param(b"data: 1\n", [], id="an event that is not whole is none"),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_events_are_read_however_they_come(text, outputs, size):
    events = Events("", {"Content-Type": EVENTS})
    pieces = [text[start : start + size] for start in range(0, len(text), size)]

    assert [output for piece in pieces for output in events.outputs(piece)] == outputs
    assert not events.is_over


def test_a_stream_gives_its_outputs(call, scripted):
    server = scripted(answer(body=b"data: 1\n\ndata: 2\n\n" + END, content_type=EVENTS))
    found = call(server.url, "stream", "m", {"x": 1}, request_id="r1")
    _, headers, _ = server.asked[0]

    assert found == [1, 2]
    assert (headers["accept"], headers["x-request-id"]) == (EVENTS, "r1")
    assert "x-request-timeout-ms" not in headers


STYLED = [
    pytest.param(
        {"raw": True, "end": "[DONE]"},
        b"data: a\ndata: b\n\ndata: \n\ndata: [DONE]\n\n",
        ["a\nb", ""],
        id="text, and an end by its data",
    ),
    pytest.param({"raw": True}, b"data: a\n\n" + END, ["a"], id="text, and our end"),
    pytest.param({"end": ""}, b"data: 1\n\n", [1], id="no end"),
]


@pytest.mark.parametrize(("how", "body", "outputs"), STYLED)
def test_a_stream_of_another_protocol_gives_its_outputs(call, scripted, how, body, outputs):
    server = scripted(answer(body=body, content_type=EVENTS))

    assert call(server.url, "stream", "m", 1, **how) == outputs


def test_a_stream_without_the_end_that_it_should_have_is_broken(call, scripted):
    server = scripted(answer(body=b"data: a\n\n", content_type=EVENTS))
    with pytest.raises(Unreachable, match="Stream broken off"):
        call(server.url, "stream", "m", 1, raw=True, end="[DONE]")


@pytest.mark.parametrize(
    ("told", "kind", "message"),
    [
        pytest.param(
            answer(body=b"data: 1\n\n" + FAILED, content_type=EVENTS), ServiceError,
            r"500 Prediction failed \(request r1\)", id="an error on the way",
        ),
        pytest.param(
            answer(body=b"data: 1\n\n", content_type=EVENTS), Unreachable,
            "Stream broken off", id="no end",
        ),
        pytest.param(
            answer(body=b"data: {\n\n", content_type=EVENTS), AnswerMalformed,
            "not JSON", id="an output that is not JSON",
        ),
        pytest.param(answer(body=b"{}"), AnswerMalformed, "expected text/event-stream", id="none"),
        pytest.param(answer(406), ServekitError, "406", id="a model that does not stream"),
    ],
)  # fmt: skip
def test_a_stream_that_goes_wrong_says_so(call, scripted, told, kind, message):
    with pytest.raises(kind, match=message):
        call(scripted(told).url, "stream", "m", 1, request_id="r1")


def test_a_stream_that_is_silent_for_too_long_says_so(call, scripted):
    def fall_silent(connection):
        connection.sendall(HEAD + b"data: 1\n\n")
        connection.recv(1)

    with pytest.raises(DeadlineExceeded, match="No answer in time"):
        call(scripted(fall_silent).url, "stream", "m", 1, timeout_s=0.5)


def test_a_stream_that_cannot_begin_is_tried_again(call, scripted, waits):
    server = scripted(answer(503), answer(body=END, content_type=EVENTS))

    assert call(server.url, "stream", "m", 1) == []
    assert len(waits) == 1


def endless(connection):
    connection.sendall(HEAD)
    while True:
        connection.sendall(b"data: 1\n\n")


def test_closing_the_iterator_closes_the_connection(scripted):
    server = scripted(endless)
    with Client(server.url) as client:
        stream = client.stream("m", 1)
        assert next(stream) == 1
        stream.close()
        server.close()  # which waits for its connection to end


def test_closing_the_asynchronous_iterator_closes_the_connection(scripted):
    server = scripted(endless)

    async def take_one():
        async with AsyncClient(server.url) as client:
            async with aclosing(client.stream("m", 1)) as stream:
                assert await anext(stream) == 1
            await asyncio.wait_for(asyncio.to_thread(server.close), WAIT_S)

    asyncio.run(take_one())
