# SPDX-License-Identifier: Apache-2.0
"""Whatever a body holds: that request's answer, and nothing else. Against the whole server."""

import gzip
import http.client
import json
import pickle
import socket
from pathlib import Path

import msgpack
import pytest

from tests.worker.codecs.test_bombs import BOMBS
from tests.worker.json_texts import OPEN, REFUSED, TAKEN, TOO_LARGE

MODELS = Path(__file__).parent / "models"
ECHO = Path(__file__).parents[2] / "examples" / "echo"
pytestmark = [pytest.mark.e2e, pytest.mark.slow]

JSON = "application/json"


@pytest.fixture(scope="module")
def server(serve):
    return serve("--models", ECHO, MODELS / "points", MODELS / "sums")


@pytest.fixture
def client(server):
    """Return what posts over one connection that stays open."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)

    def post(path, body, content_type=JSON, **headers):
        headers = {"Content-Type": content_type} | headers
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()

    yield post
    connection.close()


@pytest.mark.parametrize(
    ("path", "frame"),
    [
        pytest.param("/echo/predict", b"%b", id="untyped"),
        pytest.param("/points/predict", b'{"x":1,"junk":%b}', id="typed"),
        pytest.param("/sums/predict", b'{"x":%b,"x":[1]}', id="signature"),
    ],
)
def test_json(client, path, frame):
    texts = [text for text in (*TAKEN, *REFUSED) if len(text) < 20_000]
    statuses = {text: client(path, frame % text)[0] for text in texts}

    assert {text for text in REFUSED if statuses.get(text, 400) != 400} == set()
    assert {text for text in TAKEN if statuses.get(text, 200) != 200} == set()


def test_numbers_that_are_too_large(client):
    for text in TOO_LARGE:
        assert client("/echo/predict", text)[0] == 400
        assert client("/sums/predict", b'{"x":[%b]}' % text)[0] == 400


def test_lone_surrogates(client):
    for text in OPEN:
        status, body = client("/echo/predict", text)
        assert (status, json.loads(body)["prediction"]) == (200, json.loads(text))
        assert client("/echo/predict", text, Accept="application/msgpack")[0] == 400
        assert client("/points/predict", b'{"x":%b}' % text)[0] == 400


def test_bombs_are_refused_and_the_same_workers_go_on(server, client):
    before = server.workers()
    for content_type, body in BOMBS.values():
        for path in ("/echo/predict", "/points/predict", "/sums/predict"):
            status, text = client(path, body, content_type)
            assert status in (400, 413, 415, 422), (path, content_type, body[:40], text)
            problem = json.loads(text)
            assert problem["status"] == status
            assert "Traceback" not in text.decode()

    assert client("/points/predict", b'{"x": 1}')[0] == 200
    assert server.workers() == before


class Touch:
    """Leaves a file where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/x-pickle", 415),
        ("application/vnd.bentoml+pickle", 415),
        ("application/python-pickle", 415),
        ("application/x-npy", 400),
        ("application/json", 400),
        ("application/msgpack", 400),
        ("application/octet-stream", 200),  # bytes that come back as they went
        ("", 415),
    ],
)
def test_a_pickle_is_bytes(client, tmp_path, content_type, status):
    target = tmp_path / "touched"

    assert client("/echo/predict", pickle.dumps(Touch(target)), content_type)[0] == status
    assert not target.exists()


def test_a_bomb_in_gzip_is_refused_by_default(client):
    bomb = gzip.compress(bytes(200_000_000))

    assert client("/echo/predict", bomb, **{"Content-Encoding": "gzip"})[0] == 413


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, identity", "gzip, gzip"])
def test_bodies_in_other_codings_are_refused(client, encoding):
    assert client("/echo/predict", b"[1]", **{"Content-Encoding": encoding})[0] == 415


def test_a_bad_one_in_a_batch_is_alone(client):
    good = msgpack.packb({"x": 2})

    for bad in (b"\xc1", b"", b"\x91" * 4000, good + b"\0"):
        assert client("/points/predict", bad, "application/msgpack")[0] == 400
        assert client("/points/predict", good, "application/msgpack")[0] == 200


def test_what_a_client_names_is_not_fetched(client):

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/x"
        form = f'--B\r\nContent-Disposition: form-data; name="f"\r\n\r\n{url}\r\n--B--\r\n'
        assert client("/echo/predict", json.dumps({"url": url}))[0] == 200
        assert client("/echo/predict", form, "multipart/form-data; boundary=B")[0] == 200
        assert client(f"/models?url={url}", b"")[0] in (404, 405)
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_unknown_models_leave_no_series(server, client):
    for number in range(300):
        assert client(f"/unknown-{number}/predict", b"{}")[0] == 404
        assert client(f"/path/{number}", b"{}")[0] == 404

    _, metrics = server.get("/metrics")
    assert b"unknown-1" not in metrics
    assert b"/path/1" not in metrics
