# SPDX-License-Identifier: Apache-2.0
"""An engine that runs elsewhere, behind a server."""

import http.client
import importlib.util
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import openai
import pytest

from servekit.testing import ServedModel
from tests.processes import free_port
from tests.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
CHAT = "/v1/chat/completions"
STREAM = [b'data: {"id": "e", "choices": [], "n":  %d}\n\n' % at for at in range(3)]
WAIT_S = 120


def load_engine():
    path = Path(__file__).parent / "engine.py"
    spec = importlib.util.spec_from_file_location("fake_engine", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.FakeEngine


FakeEngine = load_engine()


def write_model(directory, port, **options):
    options = {"url": f"http://127.0.0.1:{port}/v1", **options}
    lines = [f"{name} = {json.dumps(value)}" for name, value in options.items()]
    toml = ['name = "llama"', 'service = "openai-proxy"', "[options]", *lines]
    (directory / "model.toml").write_text("\n".join([*toml, "[batching]", "max_concurrency = 16"]))
    return directory


@pytest.fixture(scope="module")
def engine():
    engine = FakeEngine()
    yield engine
    engine.stop()


@pytest.fixture(scope="module")
def served(tmp_path_factory, engine):
    patch = pytest.MonkeyPatch()
    patch.setenv("ENGINE_KEY", "key-of-the-engine")
    directory = tmp_path_factory.mktemp("proxy")
    write_model(directory, engine.port, model="meta/llama", key_variable="ENGINE_KEY")
    with ServedModel(directory, pass_env="ENGINE_KEY") as server:
        yield server.wait_ready()
    patch.undo()


def ask(served, text, path=CHAT, headers=None, **members):
    messages = [{"role": "user", "content": text}]
    body = {"messages": messages, "model": "llama", "more": [1.50], **members}
    return served.post(path, json.dumps(body).encode(), headers=headers)


def test_bodies_pass_as_they_are(served, engine):
    response = ask(served, "one", headers={"X-Request-Id": "r-1", "Authorization": "Bearer mine"})
    path, headers, body = engine.seen[-1]

    assert (response.status, response.body) == (200, b'{ "verbatim" : [1.50, "one"] }')
    assert response.content_type == "application/json"
    assert path == CHAT
    assert json.loads(body)["model"] == "meta/llama"
    assert headers["Authorization"] == "Bearer key-of-the-engine"
    assert headers["X-Request-Id"] == "r-1"


def test_embeddings_pass_too(served, engine):
    body = b'{"model": "llama", "input": "two", "encoding_format": "base64"}'

    assert served.post("/v1/embeddings", body).body == b'{ "verbatim" : [1.50, "two"] }'
    assert engine.seen[-1][0] == "/v1/embeddings"


def test_large_bodies_pass_both_ways(served):
    text = "x" * 500_000

    assert ask(served, text).body == b'{ "verbatim" : [1.50, "%b"] }' % text.encode()


def test_more_clients_than_the_engine_gets_requests(served):
    with ThreadPoolExecutor(40) as clients:
        found = list(clients.map(lambda _: ask(served, "one", stream=True).body, range(40)))

    assert set(found) == {b"".join(STREAM) + b"data: [DONE]\n\n"}


def test_streams_pass_as_they_are(served):
    response = ask(served, "one", stream=True)

    assert response.content_type == "text/event-stream"
    assert response.body == b"".join(STREAM) + b"data: [DONE]\n\n"


def test_pieces_are_passed_on_as_they_come(served, engine):
    engine.left.clear()
    connection = http.client.HTTPConnection(served.url.partition("://")[2], timeout=WAIT_S)
    body = {"model": "llama", "stream": True, "messages": [{"content": "forever"}]}
    connection.request("POST", CHAT, json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    first = response.read(len(STREAM[0]))
    connection.close()

    assert first == STREAM[0]
    assert engine.left.wait(WAIT_S), "the engine still writes"


@pytest.mark.parametrize("is_stream", [False, True])
def test_errors_of_the_engine_pass_as_they_are(served, is_stream):
    response = ask(served, "busy", stream=is_stream)

    assert response.status == 429
    assert response.headers["retry-after"] == "7"
    assert response.body == b'{"error": {"message": "full", "type": "x", "code": 9}}'


def test_a_client_that_leaves_ends_the_request_of_the_engine(served, engine):
    engine.left.clear()
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="x") as client:
        messages = [{"role": "user", "content": "forever"}]
        stream = client.chat.completions.create(model="llama", messages=messages, stream=True)
        next(iter(stream))
        stream.close()

        assert engine.left.wait(WAIT_S), "the engine still writes"


def test_an_engine_that_breaks_off_is_raised(served):
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="x", max_retries=0) as client:
        messages = [{"role": "user", "content": "break"}]
        stream = client.chat.completions.create(model="llama", messages=messages, stream=True)
        with pytest.raises(openai.APIError, match="Called model unavailable"):
            list(stream)


def test_connections_are_used_again(served, engine):
    ask(served, "one")
    before = engine.connections
    for _ in range(5):
        ask(served, "one")

    assert engine.connections <= before + 1  # a ping may have needed one


def test_the_model_is_listed_and_counted(served):
    models = json.loads(served.get("/v1/models").body)["data"]
    ask(served, "busy")

    assert [model["id"] for model in models] == ["llama"]
    assert 'model="llama",status="429"' in served.get("/metrics").body.decode()


def test_an_engine_that_goes_and_comes_back(tmp_path):
    engine = FakeEngine(free_port())
    with ServedModel(write_model(tmp_path, engine.port)) as served:
        served.wait_ready()
        ask(served, "one")
        engine.stop()
        wait_until(lambda: served.get("/ping").status == 503, "the engine is gone, and well")
        refused = ask(served, "one")
        engine = FakeEngine(engine.port)
        wait_until(lambda: served.get("/ping").status == 200, "the engine is back")
        answered = ask(served, "one")
        engine.stop()

    assert (refused.status, refused.headers["x-should-retry"]) == (503, "true")
    assert json.loads(refused.body)["error"]["type"] == "server_error"
    assert answered.status == 200


def test_an_engine_that_starts_later(tmp_path):
    port = free_port()
    with ServedModel(write_model(tmp_path, port)) as served:
        wait_until(lambda: "waits for the engine" in served.log.text, "it does not say so")
        engine = FakeEngine(port)
        served.wait_ready()
        engine.stop()


def test_an_engine_that_the_server_starts(tmp_path):
    port = free_port()
    (tmp_path / "llama").mkdir()
    command = [sys.executable, str(Path(__file__).parent / "engine.py"), str(port)]
    daemon = f'[[daemons]]\nname = "engine"\ncommand = {json.dumps(command)}\n'
    (tmp_path / "servekit.toml").write_text(daemon)
    model = write_model(tmp_path / "llama", port)
    with ServedModel(model, config=tmp_path / "servekit.toml") as served:
        answered = ask(served.wait_ready(), "one")

    assert answered.body == b'{ "verbatim" : [1.50, "one"] }'
