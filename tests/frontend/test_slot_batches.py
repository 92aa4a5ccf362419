# SPDX-License-Identifier: Apache-2.0
"""Requests in slots that a worker predicts as one batch, beside its streams."""

from contextlib import ExitStack

import pytest

from servekit.frontend.metrics.families import collect
from servekit.ipc.batches import Part, Parts, SlotsReply
from servekit.ipc.channel import encode_frame
from servekit.ipc.control import Lost
from servekit.ipc.table import ReplicaRow
from tests.waiting import wait_until

from .clients import ECHO
from .conftest import WAIT_S, ScriptedWorker, post, receive

JSON = "application/json"
EVENTS = "text/event-stream"


@pytest.fixture
def front_end(start):
    return start(slots=4)


@pytest.fixture
def clients(front_end):
    """Return two connections, each with a request that the worker has."""
    with ExitStack() as stack:
        socks = [stack.enter_context(front_end.connect()) for _ in range(2)]
        for sock in socks:
            sock.sendall(post(b"1"))
            front_end.worker.opened.get(timeout=WAIT_S)
        yield socks


def answer(front_end, streams, *bodies):
    answers = [("", JSON, body) for body in bodies]
    reply = SlotsReply(streams[0], answers, 0.001, 0.002, 0.003, streams=streams)
    front_end.worker.channel.sendall(encode_frame(reply))


def sizes(front_end):
    """Return the number of batches, and of the requests in them."""
    families = {family.name: family for family in collect(front_end.counters, ECHO)}
    found = {each.name: each.value for each in families["servekit_batch_size"].samples}
    return found["servekit_batch_size_count"], found["servekit_batch_size_sum"]


def test_they_are_counted_as_one_batch_and_each_client_is_told_its_size(front_end, clients):
    answer(front_end, [2, 1], b"second", b"first")
    (status, headers, body), (_, _, other) = map(receive, clients)

    assert (status, body, other) == (200, b"first", b"second")
    assert "batch;dur=1.000;desc=2, predict;dur=2.000, encode;dur=3.000" in headers["server-timing"]
    wait_until(lambda: sizes(front_end) == (1, 2), "one batch of two is counted")


def test_their_slots_are_free_again(front_end, clients):
    answer(front_end, [1, 2], b"a", b"b")
    for sock in clients:
        receive(sock)
    with ExitStack() as stack:
        for _ in range(4):
            sock = stack.enter_context(front_end.connect())
            sock.sendall(post(b"1"))
            front_end.worker.opened.get(timeout=WAIT_S)


@pytest.mark.parametrize(
    ("streams", "bodies"),
    [([1, 3], 2), ([1, 1], 2), ([1], 2), ([1, 2], 1), ([0], 0)],
    ids=["of no stream", "one twice", "too many answers", "too few answers", "for nobody"],
)
def test_a_malformed_reply_closes_the_channel_and_answers_every_client(
    front_end, clients, streams, bodies
):
    answer(front_end, streams, *[b"x"] * bodies)

    assert [receive(sock)[0] for sock in clients] == [503, 503]
    assert isinstance(front_end.hear(), Lost)


def test_a_reply_for_a_stream_that_has_begun_closes_the_channel(front_end, clients):
    front_end.worker.say(Part(1, EVENTS, b"data: 1\n\n", 1))
    answer(front_end, [1, 2], b"a", b"b")

    assert receive(clients[1])[0] == 503
    assert isinstance(front_end.hear(), Lost)


def value_of(front_end, name):
    """Return the value of the only series of *name*; 0 if there is none."""
    families = collect(front_end.counters, ECHO)
    return next((s.value for family in families for s in family.samples if s.name == name), 0)


def test_one_without_a_client_is_no_stream_that_was_cancelled(front_end, clients):
    clients[0].close()
    wait_until(lambda: front_end.worker.cancelled.has(1, 3), "the worker is told of it")
    front_end.worker.say(Part(2, EVENTS, b"data: 1\n\n", 1, ("", "", b"")))  # and this is a stream
    answer(front_end, [1], b"a")
    receive(clients[1])

    wait_until(lambda: value_of(front_end, "servekit_streams_open") == 0, "no stream is open")
    assert value_of(front_end, "servekit_outputs_total") == 1
    assert value_of(front_end, "servekit_streams_cancelled_total") == 0


def test_the_next_worker_gets_what_one_that_exits_has_not_taken(front_end, clients):
    front_end.worker.channel.sendall(encode_frame(Parts([], taken=1)))
    with front_end.connect() as waiting:
        waiting.sendall(post(b"3"))
        answers = [("", JSON, b"first")]
        reply = SlotsReply(1, answers, 0.001, 0.002, 0.003, is_last=True, streams=[1])
        front_end.worker.channel.sendall(encode_frame(reply))
        assert receive(clients[0])[::2] == (200, b"first")
        front_end.worker.die()
        replacement = ScriptedWorker(front_end.run_dir / "second.sock", generation=2)
        row = ReplicaRow(0, 2, str(replacement.address), "serving")
        front_end.publish(replicas=[row])

        assert receive(clients[1])[::2] == (200, b"1")
        assert receive(waiting)[::2] == (200, b"3")
    replacement.close()
