# SPDX-License-Identifier: Apache-2.0
"""Batches whose worker is lost: given up, or tried once more, each member alone."""

import json
from contextlib import ExitStack
from time import monotonic

import pytest

from servekit.ipc.control import Lost
from servekit.ipc.table import ReplicaRow

from .clients import Clients, bodies, hold_one, next_batch, wait_for_queue
from .conftest import WAIT_S, ScriptedWorker, post, receive


class Model:
    """A model that allows a second try, and the workers that fill its one replica."""

    def __init__(self, front_end, stack, **row):
        self.front_end, self.stack = front_end, stack
        self.clients = Clients(front_end, stack)
        self.row = {"may_retry": True} | row
        self.worker = front_end.worker
        stack.callback(self.worker.close)
        self.generation = 1
        self.publish("serving")

    def publish(self, state, **row):
        replica = ReplicaRow(0, self.generation, str(self.worker.address), state)
        self.front_end.publish(replicas=[replica], **self.row | row)

    def lose(self, is_holding=True):
        """Let the worker die, and the next one come."""
        self.worker.die()
        self.generation += 1
        self.worker = ScriptedWorker(self.front_end.run_dir / f"{self.generation}", self.generation)
        self.stack.callback(self.worker.close)
        self.worker.is_holding = is_holding
        self.publish("serving")

    def give(self, *requests):
        """Let the worker have a batch of *requests*; return their connections."""
        first = hold_one(self.front_end, self.clients)
        socks = [self.clients.send(body) for body in requests]
        wait_for_queue(self.front_end, len(requests))
        self.worker.release()
        receive(first)
        assert len(next_batch(self.worker)) == len(requests)
        return socks

    def goes_alone(self):
        """Return the body of the next batch, which has one member, and have it answered."""
        (body,) = bodies(next_batch(self.worker))
        self.worker.release()
        return body


@pytest.fixture
def model(start):
    with ExitStack() as stack:
        yield Model(start(), stack)


def titles(socks):
    answers = [receive(sock) for sock in socks]
    return [(a[0], json.loads(a[2])["title"] if a[0] != 200 else a[2].decode()) for a in answers]


def test_members_of_a_lost_batch_are_tried_alone_and_answered(model):
    socks = model.give(b"a", b"b", b"c")
    model.lose()

    assert {model.goes_alone() for _ in range(3)} == {b"a", b"b", b"c"}
    assert titles(socks) == [(200, "a"), (200, "b"), (200, "c")]


def test_the_member_that_kills_again_is_poison_and_refused_from_then_on(model):
    bad, good = model.give(b"bad", b"good")
    model.lose()
    while (body := bodies(next_batch(model.worker))[0]) != b"bad":
        model.worker.release()
    model.lose(is_holding=False)

    assert titles([bad, good]) == [(500, "Request killed its worker"), (200, "good")]
    assert body == b"bad"
    assert titles([model.clients.send(b"bad")]) == [(500, "Request killed its worker")]
    assert titles([model.clients.send(b"bae")]) == [(200, "bae")]


def test_a_lone_request_whose_worker_an_outsider_kills_gets_its_answer(model):
    (sock,) = model.give(b"alone")
    model.lose(is_holding=False)

    assert titles([sock]) == [(200, "alone")]


def test_the_same_as_a_poison_request_is_refused_while_it_waits(model):
    (sock,) = model.give(b"bad")
    model.lose()
    next_batch(model.worker)
    others = [model.clients.send(body) for body in (b"bad", b"good", b"bad")]
    wait_for_queue(model.front_end, 3)
    model.lose(is_holding=False)

    refused = (500, "Request killed its worker")
    assert titles([sock, *others]) == [refused, refused, (200, "good"), refused]


def test_large_bodies_go_with_their_tasks(start):
    body = b"x" * 100_000
    with ExitStack() as stack:
        model = Model(start(arena=700_000), stack)
        model.give(body)
        model.lose()
        assert next_batch(model.worker)
        model.lose(is_holding=False)
        assert titles([model.clients.send(body)]) == [(500, "Request killed its worker")]

        assert (
            titles([model.clients.send(b"y" * 100_000) for _ in range(8)])
            == [(200, "y" * 100_000)] * 8
        )


def test_nothing_is_tried_again_without_the_authors_word(start):
    with ExitStack() as stack:
        model = Model(start(), stack, may_retry=False)
        socks = model.give(b"a", b"b")
        model.lose()

        assert titles(socks) == [(503, "Worker lost")] * 2


def test_nothing_is_tried_again_after_its_deadline_or_without_its_client(model):
    hold_one(model.front_end, model.clients)
    late = model.clients.send(b"late", "X-Request-Timeout-Ms: 4000")
    gone, stays = model.clients.send(b"gone"), model.clients.send(b"stays")
    wait_for_queue(model.front_end, 3)
    model.worker.release()
    next_batch(model.worker)
    gone.close()
    assert receive(late)[0] == 504
    model.lose()

    assert model.goes_alone() == b"stays"
    assert titles([stays]) == [(200, "stays")]


def test_nothing_is_tried_again_while_draining(model):
    (sock,) = model.give(b"a")
    model.front_end.publish(is_draining=True, **model.row)
    wait_for_drain(model.front_end)
    model.lose()

    assert titles([sock]) == [(503, "Worker lost")]


def wait_for_drain(front_end):
    deadline = monotonic() + WAIT_S
    while monotonic() < deadline:
        with front_end.connect() as sock:
            sock.sendall(post(b"", path="/nope"))
            if receive(sock)[1].get("connection") == "close":
                return
    raise AssertionError("the front-end does not drain")


def test_members_get_503_when_the_model_is_given_up(model):
    socks = model.give(b"a", b"b")
    model.worker.die()
    model.publish("failed")

    assert [status for status, _ in titles(socks)] == [503, 503]


def test_the_supervisor_learns_which_requests_were_inside(model):
    first = hold_one(model.front_end, model.clients)
    model.worker.die()
    lost = model.front_end.hear()

    assert isinstance(lost, Lost)
    assert (lost.model, lost.replica, lost.generation) == ("echo", 0, 1)
    model.publish("failed")
    assert [each.request_id for each in lost.requests] == [receive(first)[1]["x-request-id"]]
