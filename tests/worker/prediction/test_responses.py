# SPDX-License-Identifier: Apache-2.0
"""Headers in; status, headers and content type out."""

import msgspec
import pytest

from servekit import InputError, Response
from servekit.errors import BootError
from servekit.testing import ServiceClient
from tests.worker.batches import echo, loaded, service_of
from tests.worker.worker_process import item


def turn_of(*outputs, **steps):
    service = service_of(lambda _self, _batch: list(outputs), **steps)
    return loaded(service).predictor.answer([item(0)] * len(outputs))


def test_a_response_changes_its_own_answer_and_no_other():
    turn = turn_of(1, Response(2, 201, {"Location": "/2"}), InputError("no"), 4)

    assert [error or body for error, _, body in turn.answers] == [
        b'{"prediction":1}', b'{"prediction":2}', "InputError", b'{"prediction":4}',
    ]  # fmt: skip
    assert turn.responses == {1: (201, [("Location", "/2")])}


def test_nothing_is_left_of_it_in_the_next_batch():
    predictor = loaded(service_of(lambda _self, batch: batch)).predictor
    predictor.answer([item(1)])

    assert predictor.answer([item(1)]).responses == {}


def test_postprocess_may_return_one():
    turn = turn_of("a", postprocess=lambda _self, output: Response(output, 202))

    assert turn.responses == {0: (202, [])}


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param("a,b", ("", "text/csv", b"a,b"), id="a text is sent as it is"),
        pytest.param(b"a,b", ("", "text/csv", b"a,b"), id="so are bytes"),
        pytest.param([1], "ResultNotEncodable", id="what is neither is no content"),
    ],
)
def test_a_content_type_of_its_own(output, expected):
    (answer,) = turn_of(Response(output, content_type="text/csv")).answers

    assert answer == expected or answer[0] == expected


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param({"status": 100}, id="a status that is no answer"),
        pytest.param({"status": 204}, id="a status without a body"),
        pytest.param({"status": 600}, id="a status that is none"),
        pytest.param({"headers": {"A": "b\r\nC: d"}}, id="a line break in a value"),
        pytest.param({"headers": {"A b": "c"}}, id="a space in a name"),
        pytest.param({"headers": {"A": "\u20ac"}}, id="what is not Latin-1"),
        pytest.param({"headers": {"Content-Length": "1"}}, id="framing"),
        pytest.param({"headers": {"connection": "close"}}, id="what concerns the connection"),
        pytest.param({"headers": {"Access-Control-Allow-Origin": "*"}}, id="the operator's"),
        pytest.param({"headers": {"X-Request-Id": "1"}}, id="what is the server's"),
        pytest.param({"headers": {f"A{n}": "" for n in range(33)}}, id="too many"),
        pytest.param({"content_type": "text"}, id="what is no content type"),
        pytest.param({"content_type": "text/a\r\nB: c"}, id="a line break in a content type"),
        pytest.param({"content_type": "application/vnd.servekit.values"}, id="what stages say"),
    ],
)
def test_what_no_answer_can_say(parts):
    with pytest.raises(ValueError, match=r"^(status|header|.* not a valid|.*reserved for)"):
        Response(1, **parts)


def test_a_service_sees_the_headers_that_it_asked_for():
    def load(self, context):
        self.context = context

    def predict(self, batch):
        return [request.headers.get("x-user") for request in self.context.requests]

    kind = type(service_of(predict, load=load, request_headers=("X-User",)))
    with ServiceClient(kind) as client:
        answer = client.post(b"1", headers={"X-User": "ada"})

    assert answer.prediction == "ada"


def test_a_client_of_the_tests_sees_status_and_headers():
    service = service_of(lambda _self, batch: [Response(x, 201, {"A": "b"}) for x in batch])
    with ServiceClient(type(service)) as client:
        answer = client.post(b"1")

    assert (answer.status, answer.headers, answer.json()) == (201, {"A": "b"}, {"prediction": 1})


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(("authorization",), id="the server's secrets stay in the front-end"),
        pytest.param(("a b",), id="what is no name"),
        pytest.param("x-user", id="a text is no tuple"),
    ],
)
def test_headers_that_cannot_be_asked_for(names):
    with pytest.raises(BootError, match="request_headers"):
        loaded(service_of(echo, request_headers=names))


@pytest.mark.parametrize("names", ["lang", ("",), (1,)])
def test_parameters_that_cannot_be_asked_for(names):
    with pytest.raises(BootError, match="request_query"):
        loaded(service_of(echo, request_query=names))


def test_a_worker_hands_them_through(start):
    worker = start("context:Headers").boot()
    assert worker.interface.request_headers == ["x-user"]
    channel = worker.connect()
    seen = {"x-user": "ada", "traceparent": "00-1"}
    ((_, body),) = channel.predict(item(1, headers={**seen, "?lang": "de"}))

    assert worker.interface.request_query == ["lang"]
    assert msgspec.json.decode(body) == {"prediction": {**seen, "lang": "de"}}
    assert channel.reply.responses == {0: (202, [("X-Seen", "yes")])}
