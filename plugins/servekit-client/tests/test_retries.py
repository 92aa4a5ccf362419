# SPDX-License-Identifier: Apache-2.0
"""What is tried again, how often, and after how long."""

import socket
from time import monotonic

import pytest
from servekit_client import (
    ConnectionRefused,
    DeadlineExceeded,
    InputError,
    QueueFull,
    RequestError,
    ServiceError,
    Unavailable,
    Unreachable,
)
from servekit_client.attempts import Attempts

from .conftest import answer

OK = answer(body=b'{"prediction": 3}')
FULL, DOWN = answer(429, Retry_After=1), answer(503, Retry_After=1)


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        pytest.param([OK], 3, id="an answer is taken"),
        pytest.param([FULL, OK], 3, id="a full queue is tried again"),
        pytest.param([DOWN, FULL, OK], 3, id="so is a lost worker, and twice"),
        pytest.param([DOWN, DOWN, DOWN], Unavailable, id="but not for ever"),
        pytest.param([FULL, answer(422)], InputError, id="a later error of another kind counts"),
        pytest.param([answer(500)], ServiceError, id="a failed model is not tried again"),
        pytest.param([answer(504)], DeadlineExceeded, id="nor what came too late"),
        pytest.param([answer(400)], RequestError, id="nor a bad request"),
        pytest.param([b""], Unreachable, id="nor a connection that breaks: it may have run"),
        pytest.param([OK[:-3]], Unreachable, id="nor an answer that is cut short"),
    ],
)
def test_what_is_tried_again(call, scripted, waits, answers, found):
    server = scripted(*answers)
    if isinstance(found, int):
        assert call(server.url, "predict", "m", 1) == found
    else:
        with pytest.raises(found):
            call(server.url, "predict", "m", 1)

    assert len(server.asked) == len(answers)
    assert len(waits) == len(answers) - 1


def test_every_try_is_the_same_request_with_less_time(call, scripted, waits):
    server = scripted(DOWN, OK)
    call(server.url, "predict", "m", {"x": 1}, timeout_s=100, request_id="mine")
    (first, early, body), (second, late, again) = server.asked
    times = [int(headers["x-request-timeout-ms"]) for headers in (early, late)]

    assert (first, body) == (second, again)
    assert early["x-request-id"] == late["x-request-id"] == "mine"
    assert 100_000 >= times[0] >= times[1] > 50_000


def test_nobody_listens_is_tried_again_until_somebody_does(call, scripted, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]

    def open_up(self, error, *, elsewhere):
        assert isinstance(error, ConnectionRefused)
        scripted(OK, port=port)
        return 0.0

    monkeypatch.setattr(Attempts, "pause_s", open_up)

    assert call(f"http://127.0.0.1:{port}", "predict", "m", 1) == 3


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_nobody_listens_is_told_in_the_end(call, waits, host):
    with socket.socket() as bound:  # it does not listen
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        with pytest.raises(ConnectionRefused, match=f"{host}:{port}"):
            call(f"http://{host}:{port}", "predict", "m", 1)

    assert len(waits) == 2


def test_a_host_without_an_address_is_not_tried_again(call, waits):
    with pytest.raises(Unreachable) as raised:
        call("http://nowhere.invalid:1", "predict", "m", 1)

    assert not isinstance(raised.value, ConnectionRefused)
    assert waits == []


@pytest.mark.parametrize(
    ("headers", "least", "most"),
    [
        pytest.param({"Retry_After": 4}, 4, 6, id="as long as the server asks, or a little more"),
        pytest.param({"Retry_After": 0}, 0.1, 0.15, id="never at once"),
        pytest.param({}, 0.1, 0.15, id="a moment if it does not say"),
        pytest.param({"Retry_After": "soon"}, 0.1, 0.15, id="or says what cannot be understood"),
        pytest.param(
            {"Retry_After": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.1, 0.15, id="a date gone by"
        ),
        pytest.param(
            {"Retry_After": "Fri, 31 Dec 9999 23:59:59 -1200"},
            0.1,
            0.15,
            id="a date after the last one",
        ),
    ],
)
def test_how_long_it_waits(call, scripted, waits, headers, least, most):
    call(scripted(answer(503, **headers), OK).url, "predict", "m", 1)

    assert least <= waits[0] <= most


def test_waits_grow_and_differ():
    waits = [Attempts(9, 99, "") for _ in range(20)]
    grown = [[each.pause_s(QueueFull()) for _ in range(4)] for each in waits]

    assert all(wait[3] > wait[2] > wait[1] / 1.5 > 0.1 for wait in grown)
    assert len({wait[0] for wait in grown}) > 10


def test_a_wait_beyond_the_deadline_is_not_begun(call, scripted, waits):
    server = scripted(answer(503, Retry_After=60))
    began = monotonic()
    with pytest.raises(Unavailable) as raised:
        call(server.url, "predict", "m", 1, timeout_s=50)

    assert raised.value.retry_after_s == 60
    assert (len(server.asked), waits) == (1, [])
    assert monotonic() - began < 50


def test_no_retries_are_made_if_none_are_wanted(call, scripted, waits):
    with pytest.raises(Unavailable):
        call(scripted(DOWN).url, "predict", "m", 1, retries=0)

    assert waits == []


def test_a_call_asks_three_more_servers_at_once_and_not_all_when_they_are_full():
    attempts = Attempts(0, 99, "")
    waits = [attempts.pause_s(QueueFull(), elsewhere=True) for _ in range(3)]

    assert waits == [0.0] * 3
    with pytest.raises(QueueFull):
        attempts.pause_s(QueueFull(), elsewhere=True)


def test_servers_that_cannot_be_connected_to_do_not_count():
    attempts = Attempts(0, 99, "")

    assert {attempts.pause_s(ConnectionRefused(), elsewhere=True) for _ in range(99)} == {0.0}
    assert attempts.pause_s(QueueFull(), elsewhere=True) == 0.0
