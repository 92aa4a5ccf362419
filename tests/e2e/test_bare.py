# SPDX-License-Identifier: Apache-2.0
"""Responses that are the output itself, streams of other protocols, and endpoints that stream."""

import json
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgpack
import pytest
from servekit_client import AnswerMalformed, Client, InputError, RequestError

MODELS = Path(__file__).parent / "models"
EVENTS = "text/event-stream"
DONE = b"data: [DONE]\n\n"
LARGE = "x" * 100_000  #: its body goes through shared memory
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(serve):
    return serve("--models", MODELS / "bare", MODELS / "mixed", "--large-body=64K", "--jobs=5")


def ask(server, path, value, **headers):
    """Return status, media type and body."""
    status, fields, body = server.post(path, json.dumps(value).encode(), **headers)
    return status, fields.get("Content-Type"), body


def get(server, target, **headers):
    request = urllib.request.Request(server.url + target, headers=headers)
    status, fields, body = server.send(request)
    return status, fields.get("Content-Type"), body


# ------------------------------------------------------------ the output is the body


def test_the_output_is_the_body(server):
    found = ask(server, "/bare/predict", {"text": "a 7"})

    assert found == (200, "application/json", b'["a",7]')


def test_the_output_is_the_body_in_other_codecs(server):
    accept = {"Accept": "application/msgpack"}
    status, media_type, body = ask(server, "/bare/predict", {"text": "a 7"}, **accept)

    assert (status, media_type) == (200, "application/msgpack")
    assert msgpack.unpackb(body) == ["a", 7]


@pytest.mark.parametrize("text", ["a b", LARGE])
def test_the_output_of_one_stage_is_the_body(server, text):
    found = ask(server, "/v1/upper", {"text": text})

    assert found == (200, "application/json", json.dumps(text.upper()).encode())


@pytest.mark.parametrize(
    ("path", "output"), [("/v1/packed", "A B"), ("/v1/packed/words", ["A", "B"])]
)
def test_a_client_that_names_no_media_type_gets_that_of_the_route(server, path, output):
    body = msgpack.packb({"text": "a b"})
    status, fields, answer = server.post(path, body, "", Accept="*/*")

    assert (status, fields["Content-Type"]) == (200, "application/msgpack")
    assert msgpack.unpackb(answer) == output
    assert (
        ask(server, path, {"text": "a b"}, Accept="application/json")[2]
        == json.dumps(output, separators=(",", ":")).encode()
    )


def test_a_route_can_have_the_envelope_that_its_model_has_not(server):
    _, _, body = ask(server, "/v1/enveloped", {"text": "a b"})

    assert json.loads(body) == {"prediction": ["A", "B"]}


def test_an_error_is_a_problem_as_anywhere(server):
    status, media_type, body = ask(server, "/v1/upper", {"text": 1})

    assert (status, media_type) == (422, "application/problem+json")
    assert json.loads(body)["detail"] == "text: expected str, got int"


def test_instances_are_answered_by_a_list(server):
    status, _, body = ask(server, "/v1/uppers", {"instances": [{"text": "a"}, {"text": "b"}]})

    assert (status, body) == (200, b'["A","B"]')


def test_an_instance_that_is_refused_has_its_error_in_the_list(server):
    status, _, body = ask(server, "/v1/uppers", {"instances": [{"text": "a"}, {"text": ""}]})
    good, bad = json.loads(body)

    assert (status, good) == (207, "A")
    assert bad["error"]["detail"] == "no text"


def test_a_cached_response_is_the_same(server):
    found = [server.post("/mixed/predict", b"0.0") for _ in range(2)]

    assert [fields["X-Cache"] for _, fields, _ in found] == ["miss", "hit"]
    assert [body for _, _, body in found] == [b'{"batch":1}'] * 2


# ------------------------------------------------------------ streams


@pytest.mark.parametrize("path", ["/bare/predict", "/v1/words"])
def test_a_member_of_the_body_asks_for_a_stream(server, path):
    status, media_type, body = ask(server, path, {"text": "X Y", "stream": True})

    assert (status, media_type) == (200, EVENTS)
    assert body == b"data: X\n\ndata: Y\n\n" + DONE


@pytest.mark.parametrize("path", ["/bare/predict", "/v1/words"])
def test_a_member_of_the_body_refuses_a_stream(server, path):
    accept = {"Accept": f"application/json, {EVENTS}"}
    found = ask(server, path, {"text": "X Y", "stream": False}, **accept)

    assert found == (200, "application/json", b'["X","Y"]')


@pytest.mark.parametrize("path", ["/bare/predict", "/v1/words"])
def test_accept_decides_where_the_body_does_not_say(server, path):
    _, media_type, body = ask(server, path, {"text": "X"}, Accept=EVENTS)

    assert (media_type, body) == (EVENTS, b"data: X\n\n" + DONE)


def test_the_member_may_be_in_msgpack(server):
    body = msgpack.packb({"text": "X", "stream": True})
    _, fields, answer = server.post("/bare/predict", body, "application/msgpack")

    assert (fields["Content-Type"], answer) == (EVENTS, b"data: X\n\n" + DONE)


def test_only_strings_are_raw_and_keep_their_lines(server):
    _, _, body = ask(server, "/bare/predict", {"text": "a\nb\r\nc 7 ", "stream": True})

    assert body == b"data: a\ndata: b\ndata: c\n\ndata: 7\n\ndata: \n\n" + DONE


def test_a_stream_that_fails_has_an_error_in_place_of_the_end(server):
    _, _, body = ask(server, "/bare/predict", {"text": "a fail", "stream": True})
    first, error, rest = body.split(b"\n\n")

    assert (first, rest) == (b"data: a", b"")
    assert error.startswith(b"event: error\ndata: {")


def test_lines_of_json_are_bare_too(server):
    accept = {"Accept": "application/x-ndjson"}
    _, media_type, body = ask(server, "/bare/predict", {"text": "a 7", "stream": True}, **accept)

    assert (media_type, body) == ("application/x-ndjson", b'"a"\n7\n')


def test_a_route_can_stream_as_usual(server):
    _, _, body = ask(server, "/v1/enveloped", {"text": "a", "stream": True}, Accept=EVENTS)

    assert body == b'data: "A"\n\nevent: end\ndata: {}\n\n'


# ------------------------------------------------------------ endpoints


def test_an_endpoint_streams(server):
    _, media_type, body = ask(server, "/mixed/ticks", {"to": 2}, Accept=EVENTS)

    assert (media_type, body) == (EVENTS, b"data: 0\n\ndata: 1\n\n")
    assert ask(server, "/mixed/ticks", {"to": 2}) == (200, "application/json", b"[0,1]")


def test_an_endpoint_answers_get_by_its_query(server):
    target = "/mixed/ticks?to=2&words=a%20b&words=c"

    assert get(server, target) == (200, "application/json", b'[0,1,"a b","c"]')
    events = b'data: 0\n\ndata: 1\n\ndata: "a b"\n\ndata: "c"\n\n'
    assert get(server, target, Accept=EVENTS) == (200, EVENTS, events)
    assert get(server, "/mixed/squares?to=3")[2] == b'{"prediction":9}'
    assert get(server, "/mixed/versions/1.0/squares?to=3")[2] == b'{"prediction":9}'


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("", "to: missing"),
        ("?to=x", "to: expected int, got str"),
        ("?to=1&to=2", "query: to: duplicate parameter"),
        ("?to=%ff", "query: not UTF-8, or more than 128 parameters"),
    ],
)
def test_a_query_that_is_no_input_is_refused(server, query, detail):
    status, _, body = get(server, f"/mixed/squares{query}")

    assert status in (400, 422)
    assert json.loads(body)["detail"] == detail


def test_the_body_of_a_get_is_ignored(server):
    request = urllib.request.Request(
        f"{server.url}/mixed/squares?to=4", data=b'{"to":' + b" " * 100_000 + b"5}", method="GET"
    )

    assert server.send(request)[2] == b'{"prediction":16}'


def test_a_path_that_answers_get_says_so(server):
    request = urllib.request.Request(server.url + "/mixed/ticks", method="PUT")
    other = urllib.request.Request(server.url + "/mixed/predict")

    assert [server.send(each)[:1] for each in (request, other)] == [(405,), (405,)]
    assert server.send(request)[1]["Allow"] == "GET, POST"
    assert server.send(other)[1]["Allow"] == "POST"


def test_predict_keeps_its_batches_beside_an_endpoint_that_streams(server):
    with ThreadPoolExecutor(24) as pool:
        posts = [pool.submit(ask, server, "/mixed/predict", 0.1 + at / 1e4) for at in range(24)]
        sizes = [json.loads(post.result()[2])["batch"] for post in posts]

    assert max(sizes) > 4


# ------------------------------------------------------------ descriptions and the client


def test_descriptions_say_it(server):
    described = json.loads(server.get("/openapi.json")[1])
    post = described["paths"]["/bare/predict"]["post"]
    content = post["responses"]["200"]["content"]
    query = described["paths"]["/mixed/ticks"]["get"]["parameters"]

    assert content["application/json"]["schema"]["type"] == "array"
    assert '`"stream": true`' in content[EVENTS]["schema"]["description"]
    assert "`[DONE]`" in content[EVENTS]["schema"]["description"]
    assert [(each["name"], each["required"]) for each in query if each.get("in") == "query"] == [
        ("to", True),
        ("words", False),
        ("stream", False),
    ]
    old = json.loads(server.get("/api-description")[1])["description"]
    assert old["paths"]["/bare/predict"]["post"]["responses"]["200"]["schema"]["type"] == "array"
    assert "get" in old["paths"]["/mixed/ticks"]


def test_a_job_has_the_output_as_its_result_and_cannot_stream(server):
    with Client(server.url) as client:
        job = client.submit("bare", {"text": "a b"})
        assert job.id
        assert job.result(envelope=False) == ["a", "b"]
        with pytest.raises(RequestError, match="a stream cannot be fetched later") as raised:
            client.submit("bare", {"text": "a", "stream": True}).result(envelope=False)

    assert raised.value.status == 406


def test_the_client_reads_them(server):
    value = {"text": "a b"}
    with Client(server.url) as client:
        assert client.predict("bare", value, envelope=False) == ["a", "b"]
        assert list(client.stream("bare", value, raw=True, end="[DONE]")) == ["a", "b"]
        assert list(client.stream("/mixed/ticks", {"to": 2}, end="")) == [0, 1]
        found = client.instances("/v1/uppers", [value, {"text": ""}], envelope=False)
        assert client.describe("bare").output_schema["type"] == "array"
        with pytest.raises(AnswerMalformed, match="has no 'prediction'"):
            client.predict("bare", value)

    assert found[0] == "A B"
    assert isinstance(found[1], InputError)
