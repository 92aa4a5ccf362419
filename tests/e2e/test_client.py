# SPDX-License-Identifier: Apache-2.0
"""The Python client against a real server."""

import asyncio
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from servekit_client import (
    AsyncClient,
    Client,
    DeadlineExceeded,
    InputError,
    NotFound,
    RequestError,
    ServiceError,
    Unauthorized,
    Unavailable,
)

from tests.waiting import wait_until

MODELS = Path(__file__).parent / "models"
ECHO = Path(__file__).parents[2] / "examples/echo"
TOKEN = "0123456789abcdef0123456789abcdef"
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(serve, tmp_path_factory):
    tokens = tmp_path_factory.mktemp("tokens") / "tokens"
    tokens.write_text(f"{TOKEN}\n")
    tokens.chmod(0o600)
    models = *(MODELS / name for name in ("grid", "points", "slow")), ECHO
    return serve("--predict-token-file", tokens, "--models", *models)


def with_threads(url, method, *arguments, token=TOKEN, **how):
    with Client(url, token=token, retries=0) as client:
        return getattr(client, method)(*arguments, **how)


def with_asyncio(url, method, *arguments, token=TOKEN, **how):
    async def run():
        async with AsyncClient(url, token=token, retries=0) as client:
            return await getattr(client, method)(*arguments, **how)

    return asyncio.run(run())


@pytest.fixture(params=[with_threads, with_asyncio], ids=["threads", "asyncio"])
def call(request, server):
    """Return ``call(method, *arguments)``, made by a new client of each kind."""
    return lambda *arguments, **how: request.param(server.url, *arguments, **how)


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, -1, 2**63, 1.5, math.inf, "ä", b"\0\xff", [], {}, [[1], {"a": b"b"}]),
        *({"nested": [{"deep": [1.0, None]}]}, "x" * 200_000),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_what_is_sent_comes_back_as_it_was(call, value):
    found = call("predict", "echo", value)

    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize("shape", [(2, 3), (1, 300, 300), (0,)])
@pytest.mark.parametrize("dtype", ["float32", "uint8", "bool", "float16"])
def test_an_array_comes_back_as_it_was(call, dtype, shape):
    array = (np.arange(math.prod(shape)) % 200).reshape(shape).astype(dtype)
    found = call("predict", "echo", {"array": array})["array"]

    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert np.array_equal(found, array)


@pytest.mark.parametrize("grid", [np.ones((2, 3), "float32"), [[1, 1, 1], [1, 1, 1]]], ids=type)
def test_a_model_with_a_signature_answers_in_arrays(call, grid):
    found = call("predict", "grid", {"grid": grid})

    assert found["rows"].dtype == "float32"
    assert found["rows"].tolist() == [3.0, 3.0]
    assert found["batch"] == 1


@pytest.mark.parametrize(
    ("model", "value", "kind", "text"),
    [
        pytest.param("points", {"x": "a"}, InputError, "422 Input refused: x: ", id="type"),
        pytest.param("points", {"x": 13}, InputError, "x: 13 is unlucky", id="service"),
        pytest.param("grid", {"grid": [1]}, InputError, r"shape \[1\], expected", id="signature"),
        pytest.param("gone", 1, NotFound, "Unknown model: no model is called 'gone'", id="name"),
        pytest.param("../ping", 1, NotFound, "404", id="no way up"),
        pytest.param("slow", 1, ServiceError, "500 Prediction failed .request", id="failure"),
        pytest.param("echo", {1: 2}, RequestError, "400 Malformed body", id="a key no text"),
    ],
)  # fmt: skip
def test_an_error_has_a_class_and_says_what_is_wrong(call, model, value, kind, text):
    with pytest.raises(kind, match=text) as raised:
        call("predict", model, value, request_id="r1")

    assert raised.value.request_id == "r1"
    assert type(raised.value) is kind


def test_fields_that_are_wrong_are_listed(call):
    with pytest.raises(InputError) as raised:
        call("predict", "points", {"x": 1, "y": "a"})

    assert raised.value.errors == [{"field": "y", "message": "expected float, got str"}]


@pytest.mark.parametrize("token", [None, "wrong"])
def test_a_prediction_needs_the_token(call, token):
    with pytest.raises(Unauthorized, match="401"):
        call("predict", "echo", 1, token=token)

    assert call("ping", token=token)


def test_a_deadline_ends_the_call(call):
    with pytest.raises(DeadlineExceeded):
        call("predict", "slow", {"seconds": 1}, timeout_s=0.2)


def test_a_raw_body_is_answered_as_asked(call):
    as_bytes = call("raw", "echo", b"\x01\x02", "application/octet-stream", "*/*")
    as_json = call("raw", "points", b'{"x": 1, "y": 2}', "application/json")

    assert (as_bytes.content_type, as_bytes.output) == ("application/octet-stream", b"\x01\x02")
    assert (as_json.body, as_json.output) == (b'{"prediction":3.0}', 3.0)
    assert "predict" in as_json.headers["server-timing"]


def test_the_models_are_listed_and_described(call):
    points = call("describe", "points")

    assert sorted(call("models")) == ["echo", "grid", "points", "slow"]
    assert points.text == "Adds up the coordinates of a point."
    assert points.consumes[0] == "application/json"
    assert points.input_schema["$ref"] == "#/$defs/points.Point"
    assert points.input_schema["$defs"]["points.Point"]["properties"]["x"] == {"type": "number"}
    assert points.output_schema == {"type": "number"}
    assert call("describe", "echo").examples == [{"hello": "world"}]


def test_a_model_that_is_not_there_is_not_described(call):
    with pytest.raises(NotFound, match="gone"):
        call("describe", "gone")


def test_one_client_serves_many_threads(server):
    with Client(server.url, token=TOKEN) as client, ThreadPoolExecutor(16) as pool:
        found = list(
            pool.map(lambda x: client.predict("points", {"x": x, "y": 1}), range(100, 300))
        )

    assert found == [x + 1 for x in range(100, 300)]


def test_one_client_serves_many_tasks(server):
    async def run():
        async with AsyncClient(server.url, token=TOKEN) as client:
            calls = (client.predict("points", {"x": x, "y": 1}) for x in range(100, 300))
            return await asyncio.gather(*calls)

    assert asyncio.run(run()) == [x + 1 for x in range(100, 300)]


def test_a_lost_worker_is_waited_for(server):
    with pytest.raises(Unavailable, match="503 Worker lost"):
        with_threads(server.url, "predict", "slow", {"exit": 3})
    with Client(server.url, token=TOKEN, retries=8, timeout_s=100) as client:
        found = client.predict("slow", {"id": 7})  # there is no worker, or no longer none
        wait_until(lambda: client.ping() and client.ping("slow"), "the model is ready again")

    assert found["id"] == 7
