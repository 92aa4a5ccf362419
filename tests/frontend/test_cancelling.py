# SPDX-License-Identifier: Apache-2.0
"""Clients that go away: what waits is dropped, what a worker has is marked."""

import socket
from time import monotonic, sleep

import pytest

from .clients import bodies, hold_one, next_batch, wait_for_queue
from .conftest import WAIT_S, receive

SEEN_S = 0.5  #: within which a client's end is noticed, on a busy machine too


def is_marked(worker, place, within_s=SEEN_S):
    """Whether the worker can see, before long, that the client of *place* has gone."""
    deadline = monotonic() + within_s
    while not worker.cancelled.has(worker.held[0], place) and monotonic() < deadline:
        sleep(0.001)
    return worker.cancelled.has(worker.held[0], place)


def reset(sock):
    """Close with a RST."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    sock.close()


LEAVES = {
    "closes": socket.socket.close,
    "resets": reset,
    "ends its sending side": lambda sock: sock.shutdown(socket.SHUT_WR),
}


@pytest.mark.parametrize("leave", LEAVES.values(), ids=LEAVES)
def test_queued_task_of_a_client_that_leaves_reaches_no_worker(clients, leave):
    worker = clients.front_end.worker
    hold_one(clients.front_end, clients)
    leave(clients.send(b"leaves"))
    stays = clients.send(b"stays")
    wait_for_queue(clients.front_end, 1)
    worker.is_holding = False
    worker.release()

    assert receive(stays)[0] == 200
    assert bodies(next_batch(worker)) == [b"stays"]


@pytest.mark.parametrize("leave", LEAVES.values(), ids=LEAVES)
def test_worker_sees_who_of_its_batch_has_left(clients, leave):
    worker = clients.front_end.worker
    hold_one(clients.front_end, clients)
    socks = [clients.send(b"%d" % number) for number in range(3)]
    wait_for_queue(clients.front_end, 3)
    worker.release()
    found = bodies(next_batch(worker))
    leave(socks[1])

    assert is_marked(worker, found.index(b"1"))
    assert worker.cancelled.has_any(worker.held[0])
    marked = [worker.cancelled.has(worker.held[0], place) for place in range(3)]
    assert [body for body, has_left in zip(found, marked, strict=True) if has_left] == [b"1"]


def test_client_that_only_ended_its_sending_side_gets_its_answer(clients):
    worker = clients.front_end.worker
    sock = hold_one(clients.front_end, clients)
    sock.shutdown(socket.SHUT_WR)
    assert is_marked(worker, 0)
    worker.release()

    assert receive(sock)[::2] == (200, b"first")


def test_mark_of_one_batch_says_nothing_of_the_next(clients):
    worker = clients.front_end.worker
    hold_one(clients.front_end, clients).close()
    assert is_marked(worker, 0)
    worker.release()
    sock = clients.send(b"next")
    assert bodies(next_batch(worker)) == [b"next"]

    assert not worker.cancelled.has_any(worker.held[0])
    assert not is_marked(worker, 0)
    worker.release()
    assert receive(sock)[0] == 200


def test_half_of_a_queue_that_leaves_is_dropped_at_once(clients):
    front_end = clients.front_end
    hold_one(front_end, clients)
    socks = [clients.send(b"%d" % number) for number in range(16)]
    wait_for_queue(front_end, 16)
    for sock in socks[::2]:
        sock.close()
    wait_for_queue(front_end, 8)
    front_end.worker.is_holding = False
    front_end.worker.release()

    assert [receive(sock)[0] for sock in socks[1::2]] == [200] * 8
    assert set(bodies(next_batch(front_end.worker))) == {b"%d" % i for i in range(1, 16, 2)}


def test_deadline_of_what_waits_and_of_what_runs_is_kept_to_a_quarter_second(clients):
    clients.front_end.worker.is_holding = True
    started = monotonic()
    socks = [clients.send(b"%d" % i, "X-Request-Timeout-Ms: 300") for i in range(10)]
    moments = [(receive(sock)[0], monotonic() - started) for sock in socks]

    assert {status for status, _ in moments} == {504}
    assert all(0.3 <= moment < 0.55 for _, moment in moments), moments


def test_request_without_time_reaches_no_worker(clients):
    assert receive(clients.send(b"1", "X-Request-Timeout-Ms: 0"))[0] == 504
    receive(clients.send(b"next"))

    assert bodies(clients.front_end.worker.batches.get(timeout=WAIT_S)) == [b"next"]
