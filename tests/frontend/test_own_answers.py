# SPDX-License-Identifier: Apache-2.0
"""Headers that a service asks for, and what it may say of its answers itself."""

import pytest

from servekit.frontend.metrics.families import collect
from servekit.ipc.table import Interface

from .clients import ECHO
from .conftest import WAIT_S, post, receive

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def front_end(shared):
    """The shared one, whose worker says nothing of its own before and after."""
    while not shared.worker.headers.empty():
        shared.worker.headers.get_nowait()
    yield shared
    shared.worker.responses = {}
    shared.publish()


def ask(front_end, *headers, path="/echo/predict"):
    with front_end.connect() as sock:
        sock.sendall(post(b"1", *headers, path=path))
        return receive(sock)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param([], {0: {"traceparent": TRACE}}, id="who asks for none gets the trace"),
        pytest.param(
            ["x-user", "x-none"],
            {0: {"traceparent": TRACE, "x-user": "\xe4da"}},
            id="who asks for some gets those that came",
        ),
    ],
)
def test_a_worker_gets_the_headers_that_it_asked_for(front_end, asked, expected):
    front_end.publish(interface=Interface(request_headers=asked))
    ask(front_end)  # the table has come when it is answered
    front_end.worker.headers.get(timeout=WAIT_S)
    ask(front_end, "X-User: \xe4da", f"Traceparent: {TRACE}", "Authorization: secret")

    assert front_end.worker.headers.get(timeout=WAIT_S) == expected


@pytest.mark.parametrize(
    ("query", "seen"),
    [
        ("?lang=de&x=1", {"?lang": "de"}),
        ("?lang=a&lang=b%20c+d", {"?lang": "b c d"}),
        ("?lang=%C3%A4", {"?lang": "\xe4"}),
        ("?lang=%FF&lang", {"?lang": ""}),
        ("?x-user=no&LANG=x", None),
        ("?", None),
        ("", None),
    ],
)
def test_a_worker_gets_the_parameters_that_it_asked_for(front_end, query, seen):
    front_end.publish(interface=Interface(request_query=["lang"]))
    ask(front_end)
    front_end.worker.headers.get(timeout=WAIT_S)
    ask(front_end, "X-User: ada", path=f"/echo/predict{query}")

    assert front_end.worker.headers.get(timeout=WAIT_S) == ({0: seen} if seen else {})


def test_an_answer_has_the_status_and_the_headers_that_its_service_gave(front_end):
    front_end.worker.responses = {0: (201, [("Location", "/jobs/1"), ("X-User", "\xe4da")])}
    status, headers, body = ask(front_end, "X-Request-Id: abc")

    assert (status, body) == (201, b"1")
    assert (headers["location"], headers["x-request-id"]) == ("/jobs/1", "abc")
    assert headers["content-type"] == "application/json"
    assert headers["content-length"] == "1"


def test_its_status_is_counted(front_end):
    def counted(status):
        (family,) = [
            each for each in collect(front_end.counters, ECHO)
            if each.name == "servekit_requests"
        ]  # fmt: skip
        return sum(s.value for s in family.samples if s.labels["status"] == status)

    before = counted("404"), counted("418")
    for status in (404, 418):
        front_end.worker.responses = {0: (status, [])}
        assert ask(front_end)[0] == status

    assert (counted("404"), counted("418")) == (before[0] + 1, before[1] + 1)


@pytest.mark.parametrize(
    "response",
    [
        pytest.param((204, []), id="a status without a body"),
        pytest.param((200, [("A", "b\r\nContent-Length: 0")]), id="another line"),
        pytest.param((200, [("Transfer-Encoding", "chunked")]), id="another framing"),
    ],
)
def test_a_worker_that_breaks_the_rules_loses_its_channel(start, response):
    front_end = start()
    front_end.worker.responses = {0: response}

    assert ask(front_end)[0] == 503
