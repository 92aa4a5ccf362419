# SPDX-License-Identifier: Apache-2.0
"""A real-time endpoint: the container's contract, from its start to SIGTERM."""

import io
import json
import threading
from contextlib import contextmanager

import msgpack
import numpy as np
import pytest

from tests.waiting import wait_until

from .conftest import write_model

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
FORM = (
    b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n'
    b'--b\r\nContent-Disposition: form-data; name="c"; filename="c.bin"\r\n'
    b"Content-Type: application/octet-stream\r\n\r\n\x00\x01\r\n--b--\r\n"
)


@pytest.fixture(scope="module")
def echo(start, tmp_path_factory):
    base = tmp_path_factory.mktemp("ml")
    write_model(base / "model")
    return start(base).wait_ready()


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def test_ping_is_empty(echo):
    status, headers, body = echo.send("GET", "/ping")

    assert (status, headers["Content-Length"], body) == (200, "0", b"")


def test_ping_does_not_wait_for_predictions(start, tmp_path):
    container = start(write_model(tmp_path / "model").parent).wait_ready()
    with asleep(container, tmp_path) as answers:
        status, _, _ = container.send("GET", "/ping")
        assert (status, answers) == (200, [])  # SageMaker waits two seconds


@contextmanager
def asleep(container, base):
    """Ask for a prediction that takes seconds; once it has begun, yield the list of answers."""
    answers = []
    thread = threading.Thread(target=lambda: answers.append(container.invoke("sleep")))
    thread.start()
    try:
        wait_until((base / "model/asleep").exists, "the worker does not get the request")
        yield answers
    finally:
        thread.join()


@pytest.mark.parametrize("value", [1, "a", None, [2.5], {"x": [1, 2]}, [0] * 100_000])
def test_answers_are_bare(echo, value):
    assert echo.invoke(value) == (200, value)


@pytest.mark.parametrize(
    ("content_type", "body", "accept", "media_type", "answer"),
    [
        ("text/plain", b"abc", "text/plain", "text/plain", b"abc"),
        ("application/octet-stream", b"\0\1", "*/*", "application/octet-stream", b"\0\1"),
        (
            *("application/msgpack", msgpack.packb({"a": 1}), "application/msgpack"),
            *("application/msgpack", msgpack.packb({"a": 1})),
        ),
        (
            *("application/json", b"[1, 2]", "application/msgpack;q=0.5, application/json;q=0.9"),
            *("application/json", b"[1,2]"),
        ),
        (
            *("application/json", b"[1, 2]", "application/msgpack, application/json;q=0.9"),
            *("application/msgpack", msgpack.packb([1, 2])),
        ),
        ("application/json", b'"picture"', "*/*", "image/png", b"PNG"),
        ("application/vnd.own+json", b"[1]", "", "application/json", b"[1]"),
    ],
)
def test_bodies_are_what_content_type_and_accept_say(
    echo, content_type, body, accept, media_type, answer
):
    more = {"Accept": accept} if accept else {}
    status, headers, found = echo.send("POST", "/invocations", body, content_type, **more)

    assert (status, headers.get_content_type(), found) == (200, media_type, answer)


def test_forms(echo):
    content_type = "multipart/form-data; boundary=b"
    status, _, body = echo.send(
        "POST", "/invocations", FORM, content_type, Accept="application/msgpack"
    )

    assert (status, msgpack.unpackb(body)) == (200, {"a": 1, "c": b"\0\1"})


def test_attributes_reach_the_service_and_come_back(echo):
    status, headers, body = echo.send(
        *("POST", "/invocations", b'"attributes"', "application/json"),
        X_Amzn_SageMaker_Custom_Attributes="trace=7",
    )

    assert (status, body) == (200, b'"trace=7"')
    assert headers["X-Amzn-SageMaker-Custom-Attributes"] == "seen"


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status", "text"),
    [
        pytest.param("POST", "/invocations", b"[1", {}, 400, "body", id="not JSON"),
        pytest.param("POST", "/invocations", b'"refuse"', {}, 422, "no", id="refused"),
        pytest.param("POST", "/invocations", b'"fail"', {}, 500, "Prediction failed", id="fails"),
        pytest.param(
            "POST", "/invocations", b"1", {"Accept": "a/b"}, 406, "Accept", id="not acceptable"
        ),
        pytest.param(
            "POST", "/invocations", b'"sleep"', {"X_Request_Timeout_Ms": "50"}, 504, "Deadline",
            id="too late",
        ),
        pytest.param("GET", "/invocations", None, {}, 405, "POST", id="method"),
        pytest.param("POST", "/ping", b"1", {}, 405, "GET", id="method of ping"),
    ],
)  # fmt: skip
def test_errors_are_a_line_of_json_with_the_request_id(
    echo, method, path, body, headers, status, text
):
    found, fields, said = echo.send(method, path, body, "application/json", **headers)
    told = json.loads(said)

    assert (found, fields["Content-Type"]) == (status, "application/json")
    assert text in told["error"]
    assert told["request_id"] == fields["X-Request-Id"]


def test_content_type_that_the_model_does_not_take(echo):
    status, _, body = echo.send("POST", "/invocations", b"1,2", "text/csv")

    assert (status, json.loads(body)["error"].split(";")[0]) == (
        415, "Content-Type: text/csv is not taken",
    )  # fmt: skip


def test_other_paths_stay_as_they_are(echo):
    status, _, body = echo.send("POST", "/echo/predict", b"1", "application/json")

    assert (status, body) == (200, b'{"prediction":1}')
    assert echo.send("GET", "/models")[0] == 404


def test_arrays(start, tmp_path):
    write_model(tmp_path / "model", "Sum")
    container = start(tmp_path).wait_ready()
    body = npy(np.array([1, 2, 3], np.float32))
    status, headers, answer = container.send(
        *("POST", "/invocations", body, "application/x-npy"), Accept="application/x-npy"
    )

    assert (status, headers["Content-Type"]) == (200, "application/x-npy")
    assert np.load(io.BytesIO(answer)) == 6.0
    assert container.invoke({"x": [1, 2, 4]}) == (200, {"y": 7.0})


@pytest.mark.parametrize(
    ("accept", "pieces"),
    [
        ("text/event-stream", b'data: "one"\n\ndata: "two"\n\nevent: end\ndata: {}\n\n'),
        ("application/x-ndjson", b'"one"\n"two"\n'),
        ("application/json", b'["one","two"]'),
    ],
)
def test_streams(words, accept, pieces):
    _, headers, body = words.send(
        *("POST", "/invocations", b'"one two"', "application/json"), Accept=accept
    )

    assert (headers.get_content_type(), body) == (accept, pieces)


@pytest.fixture(scope="module")
def words(start, tmp_path_factory):
    base = tmp_path_factory.mktemp("ml")
    write_model(base / "model", "Words")
    return start(base).wait_ready()


def test_a_stream_that_fails_ends_with_an_error_in_its_format(words):
    _, _, body = words.send(
        *("POST", "/invocations", b'"one fail"', "application/json"), Accept="text/event-stream"
    )

    assert body.startswith(b'data: "one"\n\nevent: error\ndata: {')


def test_sigterm_answers_what_has_arrived_and_ends(start, tmp_path):
    write_model(tmp_path / "model")
    container = start(tmp_path).wait_ready()
    with asleep(container, tmp_path) as answers:
        status = container.stop()

    assert (status, answers) == (0, [(200, "sleep")])
