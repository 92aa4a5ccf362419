# SPDX-License-Identifier: Apache-2.0
"""Models and errors, as openai's client sees them."""

import json
from http.client import HTTPConnection

import openai
import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
CHAT = "/v1/chat/completions"
MESSAGES = [{"role": "user", "content": "one"}]
BEARER = {"Authorization": "Bearer secret-token"}
#: large enough to be looked at from both ends
TWICE = b'{"model": "talk", "x": "%b", "messages": [], "model": "whole"}' % (b"x" * 100_000)


def test_models(client):
    assert [model.id for model in client.models.list()] == [
        "talk", "whole", "later", "write", "writes", "embed", "rows",
    ]  # fmt: skip
    assert client.models.retrieve("talk").id == "talk"


@pytest.mark.parametrize("name", ["none", "gpt-5.4"])
def test_a_model_that_does_not_exist(client, name):
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve(name)

    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


def create(client, **body):
    body = {"model": "talk", "messages": MESSAGES, **body}
    return client.post("/chat/completions", body=body, cast_to=object)


def test_a_chat_without_messages(client):
    with pytest.raises(openai.BadRequestError, match="messages: missing") as caught:
        client.post("/chat/completions", body={"model": "talk"}, cast_to=object)

    assert caught.value.param == "messages"


def ask(text):
    return {"messages": [{"role": "user", "content": text}]}


@pytest.mark.parametrize(
    ("body", "kind", "code", "param", "message"),
    [
        pytest.param(
            {"model": "none"}, openai.NotFoundError, "model_not_found", "model", "none",
            id="unknown model",
        ),
        pytest.param(
            {"model": "plain"}, openai.NotFoundError, "model_not_found", "model",
            "plain is not a chat model", id="a model for something else",
        ),
        pytest.param(
            {"model": "embed"}, openai.NotFoundError, "model_not_found", "model",
            "embed is not a chat model", id="a model of another task",
        ),
        pytest.param({"model": 1}, openai.BadRequestError, None, "model", "a string", id="no name"),
        pytest.param(
            {"messages": []}, openai.BadRequestError, None, "messages", "length", id="no messages"
        ),
        pytest.param(
            {"messages": [{"content": "a"}]}, openai.BadRequestError, None, "messages[0].role",
            "role: missing", id="no role",
        ),
        pytest.param(
            {"temperature": "hot"}, openai.BadRequestError, None, "temperature", "float",
            id="a member of another type",
        ),
        pytest.param({"n": 129}, openai.BadRequestError, None, "n", "128", id="too many choices"),
        pytest.param(
            {"top_k": "x"}, openai.BadRequestError, None, "top_k", "int", id="type of the service"
        ),
        pytest.param(
            ask("refuse"), openai.BadRequestError, None, "messages", "not that", id="refused"
        ),
        pytest.param(
            ask("fail"), openai.InternalServerError, None, None, "Prediction failed", id="failed"
        ),
        pytest.param(
            ask("memory"), openai.InternalServerError, None, None, "Out of memory", id="memory"
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_stream", [False, True])
def test_errors(client, body, kind, code, param, message, is_stream):
    with pytest.raises(kind, match=message) as caught:
        create(client, stream=is_stream, **body)
    error = caught.value

    assert (error.code, error.param) == (code, param)
    assert error.type == ("server_error" if error.status_code >= 500 else "invalid_request_error")
    assert error.response.headers["x-request-id"] == error.request_id


def test_a_wrong_key(connect):
    with pytest.raises(openai.AuthenticationError) as caught:
        create(connect(api_key="wrong"))

    assert caught.value.code == "invalid_api_key"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "text"),
    [
        pytest.param("GET", CHAT, None, 405, "POST", id="method"),
        pytest.param("POST", CHAT, b"{", 400, "body", id="not JSON"),
        pytest.param("POST", CHAT, b"[1]", 400, "model", id="not an object"),
        pytest.param("POST", CHAT, b'{"messages": []}', 400, "model", id="no model"),
        pytest.param("POST", CHAT, TWICE, 400, "twice", id="two models"),
        pytest.param("DELETE", "/v1/models/talk", None, 405, "GET", id="delete a model"),
    ],
)  # fmt: skip
def test_error_objects(served, method, path, body, status, text):
    response = served._send(method, path, body, BEARER)
    error = json.loads(response.body)["error"]

    assert (response.status, list(error)) == (status, ["message", "type", "param", "code"])
    assert text in error["message"]


def test_a_body_that_is_too_large(served):
    connection = HTTPConnection(served.url.partition("://")[2], timeout=120)
    connection.putrequest("POST", CHAT)
    for name, value in {**BEARER, "Content-Length": str(2**30)}.items():
        connection.putheader(name, value)
    connection.endheaders()
    response = connection.getresponse()
    error = json.loads(response.read())["error"]
    connection.close()

    assert (response.status, error["type"]) == (413, "invalid_request_error")


@pytest.mark.parametrize("path", ["/v1/models/plain", "/v1/models/plain/versions/1"])
def test_models_for_other_clients_are_left_to_other_protocols(served, path):
    response = served.get(path)

    assert '"id"' not in response.body.decode()


def test_errors_of_other_protocols_at_these_paths_are_theirs(served):
    pytest.importorskip("servekit_kserve_v1")
    refused = served.post("/v1/models/plain:predict", b"{}")
    answered = served.post("/v1/models/plain:predict", b'{"instances": [1]}', headers=BEARER)

    assert (refused.status, refused.json()) == (401, {"error": "a bearer token is needed"})
    assert answered.json() == {"predictions": [1.0]}


@pytest.mark.parametrize(
    ("text", "options", "should_retry"),
    [
        pytest.param("fail", {}, "false", id="a failure"),
        pytest.param("slow", {"X-Request-Timeout-Ms": "50"}, "false", id="too late"),
    ],
)
def test_clients_are_told_whether_to_try_again(connect, text, options, should_retry):
    with pytest.raises(openai.InternalServerError) as caught:
        connect(max_retries=3).chat.completions.create(
            model="talk", messages=[{"role": "user", "content": text}], extra_headers=options
        )

    assert caught.value.response.headers["x-should-retry"] == should_retry
    assert caught.value.response.request.headers["x-stainless-retry-count"] == "0"


def test_clients_try_again_what_passes(connect):
    found = connect(max_retries=5).chat.completions.with_raw_response.create(
        model="talk", messages=[{"role": "user", "content": "die_once"}]
    )

    assert found.parse().choices[0].message.content == "alive"
    assert int(found.http_request.headers["x-stainless-retry-count"]) > 0


def test_an_overloaded_server_has_clients_wait(served):
    from servekit_openai.errors import OpenAIErrors

    from servekit.errors import QueueFull

    response = OpenAIErrors().error_response(QueueFull(), "r")
    fields = dict(response.fields)

    assert (response.status, fields["x-should-retry"]) == (429, "true")
    assert (fields["Retry-After"], fields["retry-after-ms"]) == ("1", "1000")
    assert json.loads(response.body)["error"]["type"] == "rate_limit_error"


def test_the_request_id_is_that_of_the_client(client):
    found = client.chat.completions.with_raw_response.create(
        model="talk", messages=MESSAGES, extra_headers={"X-Request-Id": "mine"}
    )

    assert (found.headers["x-request-id"], found.parse().id) == ("mine", "chatcmpl-mine")


def test_the_protocol_is_described(served):
    paths = json.loads(served.get("/openapi.json").body)["paths"]

    assert paths[CHAT]["post"]["security"] == [{"token": []}]
    assert {"/v1/completions", "/v1/embeddings"} < paths.keys()


def test_requests_are_counted_with_the_model_that_they_name(served, client):
    create(client, model="whole")

    text = served.get("/metrics").body.decode()
    assert 'servekit_requests_total{model="whole",status="200"' in text
