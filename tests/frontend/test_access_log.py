# SPDX-License-Identifier: Apache-2.0
"""The access log: what an answer leaves in it."""

import json
from contextlib import ExitStack
from threading import Event
from time import monotonic

import pytest

from servekit.errors import StartupError
from servekit.frontend.access_log import open_access_log
from servekit.settings import Settings

from .clients import Clients, forget_batches, hold_one
from .conftest import WAIT_S, FrontEndUnderTest, post, receive


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    """One front-end whose answers are logged."""
    directory = tmp_path_factory.mktemp("run")
    file = str(directory / "access.jsonl")
    front_end = FrontEndUnderTest(directory, access_log=file, max_body=1000, compression=("gzip",))
    yield front_end
    assert front_end.stop() == 0


def lines(front_end, at_least):
    """Wait for so many lines in all, and return those since the last call."""
    seen = getattr(front_end, "lines_seen", 0)
    deadline = monotonic() + WAIT_S
    while True:
        with open(front_end.settings.access_log, encoding="utf-8") as file:  # noqa: PTH123
            found = [json.loads(line) for line in file]
        if len(found) >= seen + at_least:
            front_end.lines_seen = len(found)
            return found[seen:]
        assert monotonic() < deadline, f"{at_least} lines more: {found[seen:]}"
        Event().wait(0.02)


@pytest.mark.parametrize(
    ("request_bytes", "expected"),
    [
        pytest.param(
            post(b"[1]", "X-Request-Id: mine"), ("POST", "/echo/predict", 200, 3, "mine"),
            id="a prediction",
        ),
        pytest.param(
            post(b"[1]" * 300, "X-Request-Id: big", "Accept-Encoding: gzip"),
            ("POST", "/echo/predict", 200, 900, "big"), id="a compressed one, once",
        ),
        pytest.param(
            b"GET /nothing?token=secret HTTP/1.1\r\nHost: a\r\nX-Request-Id: b\r\n\r\n",
            ("GET", "/nothing", 404, ..., "b"), id="another route, its query left out",
        ),
        pytest.param(
            post(b"", path="/other/predict"), ("POST", "/other/predict", 404, ..., ...),
            id="a model that is not there",
        ),
        pytest.param(
            post(b"0" * 1001), ("", "/echo/predict", 413, None, ...),
            id="a body that is refused before it has come",
        ),
        pytest.param(b"nonsense\r\n\r\n", ("", "", 400, None, ...), id="no request at all"),
        pytest.param(
            b'GET /"\\ HTTP/1.1\r\nHost: a\r\n\r\n', (..., ..., ..., ..., ...), id="quotes"
        ),
    ],
)  # fmt: skip
def test_an_answer_is_one_line(logged, request_bytes, expected):
    with logged.connect() as sock:
        sock.sendall(request_bytes)
        status, _, _ = receive(sock)
    (line,) = lines(logged, 1)
    found = [line[name] for name in ("method", "path", "status", "bytes", "request_id")]

    assert [f for f, e in zip(found, expected, strict=True) if e is not ...] == [
        e for e in expected if e is not ...
    ]
    assert (line["status"], line["peer"]) == (status, "127.0.0.1")
    assert line["duration_ms"] is None or 0 <= line["duration_ms"] < WAIT_S * 1e3


def test_each_request_of_a_pipeline_is_a_line(logged):
    with logged.connect() as sock:
        sock.sendall(post(b"[1]", "X-Request-Id: a") + post(b"[2]", "X-Request-Id: b"))
        receive(sock)

    assert [line["request_id"] for line in lines(logged, 2)] == ["a", "b"]


def test_a_client_that_leaves_is_a_line_without_a_status(logged):
    forget_batches(logged.worker)
    with ExitStack() as stack:
        clients = Clients(logged, stack)
        first = hold_one(logged, clients)
        clients.send(b"left").close()
        (line,) = lines(logged, 1)
        logged.worker.is_holding = False
        logged.worker.release()
        receive(first)

    assert (line["path"], line["status"]) == ("/echo/predict", None)


def test_what_waits_is_written_at_the_end(start, tmp_path):
    front_end = start(access_log=str(tmp_path / "access.jsonl"))
    with front_end.connect() as sock:
        sock.sendall(post(b"[1]"))
        receive(sock)
    front_end.stop()

    assert (tmp_path / "access.jsonl").read_text().count("\n") == 1


def test_a_file_that_cannot_be_opened_ends_the_start(tmp_path):
    with pytest.raises(StartupError, match=r"access_log .*: Is a directory"):
        open_access_log(Settings(access_log=str(tmp_path)))
