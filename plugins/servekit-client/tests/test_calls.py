# SPDX-License-Identifier: Apache-2.0
"""What is sent, what the answers become, and when a call ends."""

import gzip
import json
import math
from threading import Event
from time import monotonic

import httpx
import msgpack
import pytest
import servekit_client
from servekit_client import AnswerMalformed, Client, DeadlineExceeded, ServekitError, errors

from .conftest import answer, call_with_asyncio

PROBLEM = {
    "type": "about:blank",
    "title": "Input refused",
    "status": 422,
    "detail": "x: missing",
    "errors": [{"field": "x", "message": "missing"}],
    "request_id": "theirs",
}
OPENAPI = {"paths": {}, "components": {"schemas": {}}}


def drip(connection):
    """Send an answer byte by byte, for longer than anybody waits."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n")
    while True:
        connection.sendall(b" ")
        Event().wait(0.02)


def test_a_prediction_is_asked_for_in_msgpack_by_a_named_request(call, scripted):
    packed = msgpack.packb({"prediction": b"\0"})
    server = scripted(answer(body=packed, content_type="application/msgpack"))
    found = call(f"{server.url}/base/", "predict", "a b", [1.5, b"\xff"], token="secret")
    line, headers, body = server.asked[0]

    assert found == b"\0"
    assert line == "POST /base/a%20b/predict HTTP/1.1"
    assert msgpack.unpackb(body) == [1.5, b"\xff"]
    assert headers["content-type"] == headers["accept"] == "application/msgpack"
    assert headers["authorization"] == "Bearer secret"
    assert len(headers["x-request-id"]) == 32


@pytest.mark.parametrize(("size", "coding"), [(3000, "gzip"), (100, None)])
def test_an_input_is_compressed_if_it_is_worth_it(call, scripted, size, coding):
    server = scripted(answer(body=b'{"prediction": 1}'))
    call(server.url, "predict", "m", b"x" * size, compress=True)
    _, headers, body = server.asked[0]

    assert headers.get("content-encoding") == coding
    assert msgpack.unpackb(gzip.decompress(body) if coding else body) == b"x" * size
    assert len(body) < 200


def test_a_path_is_called_as_it_is(call, scripted):
    server = scripted(answer(body=b'{"prediction": 1}'))
    call(server.url, "predict", "/v1/a b", 0)

    assert server.asked[0][0] == "POST /v1/a%20b HTTP/1.1"


def test_several_inputs_have_an_output_or_an_error_each(call, scripted):
    body = {"predictions": [{"prediction": [1]}, {"error": PROBLEM}]}
    server = scripted(answer(207, json.dumps(body).encode()))
    output, error = call(server.url, "instances", "/v1/all", iter([1, b"2"]))

    assert msgpack.unpackb(server.asked[0][2]) == {"instances": [1, b"2"]}
    assert output == [1]
    assert type(error) is errors.InputError
    assert (error.status, error.errors) == (422, PROBLEM["errors"])


def test_bare_outputs_have_no_envelope(call, scripted):
    outputs = [[1], {"error": 1}, {"error": PROBLEM}]
    server = scripted(answer(body=b"[1]"), answer(207, json.dumps(outputs).encode()), answer())
    whole = call(server.url, "predict", "m", 0, envelope=False)
    first, second, error = call(server.url, "instances", "/v1/all", [1, 2, 3], envelope=False)

    assert (whole, first, second) == ([1], [1], {"error": 1})
    assert type(error) is errors.InputError
    with pytest.raises(AnswerMalformed):
        call(server.url, "instances", "/v1/all", [1], envelope=False)


@pytest.mark.parametrize("body", [b'{"predictions": 3}', b'{"predictions": [{}]}', b"{}"])
def test_an_answer_without_predictions_is_malformed(call, scripted, body):
    server = scripted(answer(body=body))

    with pytest.raises(AnswerMalformed):
        call(server.url, "instances", "/v1/all", [1])


@pytest.mark.parametrize(
    ("content_type", "body", "output"),
    [
        ("application/json", b'{"prediction": [1]}', [1]),
        ("Application/JSON; charset=utf-8", b'{"prediction": null}', None),
        ("application/msgpack", msgpack.packb({"prediction": {1: 2}}), {1: 2}),
        ("text/plain; charset=utf-8", "ä".encode(), "ä"),
        ("image/png", b"\x89PNG", b"\x89PNG"),
    ],
)
def test_a_raw_body_goes_as_it_is_and_its_answer_can_be_decoded(
    call, scripted, content_type, body, output
):
    server = scripted(answer(body=body, content_type=content_type, X_Request_Id="r1"))
    found = call(server.url, "raw", "m", b"\x89PNG", "image/png", "image/png")
    _, headers, sent = server.asked[0]

    assert (found.output, found.body, found.request_id) == (output, body, "r1")
    assert (sent, headers["content-type"], headers["accept"]) == (
        *(b"\x89PNG", "image/png", "image/png"),
    )


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((400, "RequestError"), (401, "Unauthorized"), (403, "Unauthorized"), (404, "NotFound")),
        *((413, "RequestError"), (422, "InputError"), (429, "QueueFull"), (500, "ServiceError")),
        *((503, "Unavailable"), (504, "DeadlineExceeded"), (507, "ServiceError")),
        *((302, "AnswerMalformed"), (599, "ServiceError")),
    ],
)
def test_a_status_is_an_error_of_its_own(call, scripted, status, kind):
    with pytest.raises(ServekitError) as raised:
        call(scripted(answer(status)).url, "predict", "m", 1, retries=0)

    assert (type(raised.value).__name__, raised.value.status) == (kind, status)


def test_an_error_says_what_the_problem_says(call, scripted):
    body = json.dumps(PROBLEM).encode()
    told = answer(422, body, "application/problem+json")
    with pytest.raises(servekit_client.InputError) as raised:
        call(scripted(told).url, "predict", "m", 1)
    error = raised.value

    assert str(error) == "422 Input refused: x: missing (request theirs)"
    assert error.errors == [{"field": "x", "message": "missing"}]
    assert (error.title, error.detail, error.request_id) == (
        *("Input refused", "x: missing", "theirs"),
    )


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"errors": 7, "detail": null}', b"[" * 9999])
def test_a_page_that_is_no_problem_still_is_an_error(call, scripted, body):
    with pytest.raises(servekit_client.ServiceError) as raised:
        call(scripted(answer(502, body, "text/html")).url, "predict", "m", 1, request_id="r7")

    assert str(raised.value) == "502 Bad Gateway (request r7)"


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        pytest.param("application/json", b"{", id="broken JSON"),
        pytest.param("application/json", b"[1]", id="no mapping"),
        pytest.param("application/json", b"{}", id="no prediction"),
        pytest.param("application/msgpack", b"\xc1", id="broken msgpack"),
        pytest.param("application/msgpack", b"\x81\x90\x01", id="a key that is a list"),
        pytest.param("text/plain", b"caf\xe9", id="text that is not UTF-8"),
    ],
)
def test_an_answer_that_no_servekit_gives_is_named(call, scripted, content_type, body):
    server = scripted(answer(body=body, content_type=content_type))
    with pytest.raises(AnswerMalformed, match=content_type):
        call(server.url, "predict", "m", 1)


@pytest.mark.parametrize(
    "hold",
    [
        pytest.param(lambda connection: connection.recv(1), id="no answer"),
        pytest.param(drip, id="an answer in drops"),
    ],
)
def test_a_call_ends_at_its_deadline(call, scripted, hold):
    began = monotonic()
    with pytest.raises(DeadlineExceeded) as raised:
        call(scripted(hold).url, "predict", "m", 1, timeout_s=0.3)

    assert raised.value.status is None
    assert 0.25 < monotonic() - began < 8


def test_a_call_ends_at_its_deadline_in_the_middle_of_an_answer(call, scripted):
    """The body gets what the header section has left of the time, not all of it once more."""

    def hold(connection):
        Event().wait(1.3)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n{")
        connection.recv(1)

    server, began = scripted(hold), monotonic()
    with pytest.raises(DeadlineExceeded):
        call(server.url, "predict", "m", 1, timeout_s=1.5)

    assert monotonic() - began < 2.5


def test_a_call_may_take_as_long_as_it_likes(call, scripted):
    told = answer(body=b'{"prediction": 1}')
    events = answer(body=b"data: 1\n\nevent: end\ndata:\n\n", content_type="text/event-stream")

    assert call(scripted(told).url, "predict", "m", 1, timeout_s=math.inf) == 1
    assert call(scripted(events).url, "stream", "m", 1, timeout_s=math.inf) == [1]


def test_asyncio_ends_a_call_whose_header_section_comes_in_drops(scripted):
    def hold(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
        while True:
            connection.sendall(b"x")
            Event().wait(0.02)

    began = monotonic()
    with pytest.raises(DeadlineExceeded):
        call_with_asyncio(scripted(hold).url, "predict", "m", 1, options={}, timeout_s=0.3)

    assert monotonic() - began < 8


@pytest.mark.parametrize("value", [{1, 2}, object(), [print]])
def test_an_input_that_cannot_be_sent_is_a_type_error(call, value):
    with pytest.raises(TypeError, match="cannot be sent"):
        call("http://127.0.0.1:9", "predict", "m", value)


def test_a_url_without_a_scheme_is_refused():
    with pytest.raises(ValueError, match=r"'127\.0\.0\.1:8080' begins with neither"):
        Client("127.0.0.1:8080")


def test_a_client_of_ones_own_is_used_and_left_open(scripted):
    server = scripted(answer(body=b'{"models": {}}'))
    with httpx.Client(headers={"X-API-Key": "k"}) as http:
        with Client(server.url, http=http) as client:
            assert client.models() == []
        assert not http.is_closed

    assert server.asked[0][1]["x-api-key"] == "k"


@pytest.mark.parametrize(
    ("told", "is_healthy", "reason"),
    [
        (answer(body=b'{"health": "healthy!"}'), True, ""),
        (answer(503, b'{"health": "unhealthy!", "reasons": ["a: b", "c"]}'), False, "a: b; c"),
        (answer(503, b"<html>", "text/html"), False, "Service Unavailable"),
    ],
)
def test_health_is_told_at_once(call, scripted, waits, told, is_healthy, reason):
    server = scripted(told)
    health = call(server.url, "ping", "m")

    assert (bool(health), health.reason, waits) == (is_healthy, reason, [])
    assert server.asked[0][0] == "GET /m/ping HTTP/1.1"


@pytest.mark.parametrize(
    ("document", "kind"),
    [(OPENAPI, "NotFound"), ({"paths": {"/m/predict": {}}, "components": 1}, "AnswerMalformed")],
)
def test_a_model_that_is_not_described_is_an_error(call, scripted, document, kind):
    server = scripted(answer(body=json.dumps(document).encode()))
    with pytest.raises(getattr(errors, kind)):
        call(server.url, "describe", "m")


def test_every_error_is_exported_and_drawn_in_the_tree():
    kinds = [each for each in vars(errors).values() if isinstance(each, type)]
    names = {each.__name__ for each in kinds if issubclass(each, ServekitError)}

    assert names <= set(errors.__all__)
    assert names <= set(servekit_client.__all__)
    assert [name for name in names if name not in errors.__doc__] == []
