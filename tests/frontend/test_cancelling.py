# SPDX-License-Identifier: Apache-2.0
"""Clients that go away: what waits is dropped, what a worker has is marked."""

import socket
from statistics import median
from time import monotonic

import pytest

from tests.waiting import wait_until

from .clients import bodies, hold_one, next_batch, wait_for_queue
from .conftest import WAIT_S, receive


def wait_for_mark(worker, place):
    """Wait until the worker can see that the client of *place* has gone."""
    wait_until(lambda: worker.cancelled.has(worker.held[0], place), "the worker is told of it")


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

    wait_for_mark(worker, found.index(b"1"))
    assert worker.cancelled.has_any(worker.held[0])
    marked = [worker.cancelled.has(worker.held[0], place) for place in range(3)]
    assert [body for body, has_left in zip(found, marked, strict=True) if has_left] == [b"1"]


def test_client_that_only_ended_its_sending_side_gets_its_answer(clients):
    worker = clients.front_end.worker
    sock = hold_one(clients.front_end, clients)
    sock.shutdown(socket.SHUT_WR)
    wait_for_mark(worker, 0)
    worker.release()

    assert receive(sock)[::2] == (200, b"first")


def test_mark_of_one_batch_says_nothing_of_the_next(clients):
    worker = clients.front_end.worker
    hold_one(clients.front_end, clients).close()
    wait_for_mark(worker, 0)
    worker.release()
    sock = clients.send(b"next")
    assert bodies(next_batch(worker)) == [b"next"]

    assert not worker.cancelled.has_any(worker.held[0])
    assert receive(clients.send(b"late", "X-Request-Timeout-Ms: 300"))[0] == 504
    assert not worker.cancelled.has_any(worker.held[0])  # nor later
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

    wait_until(lambda: usual_delay(clients) < 0.25, "deadlines are kept on a machine with time")


def usual_delay(clients):
    """Return by how much deadlines are missed, in the middle; they are spread over a second."""
    begun = []
    for number in range(10):
        timeout_ms = 300 + 100 * number
        due = monotonic() + timeout_ms / 1000
        begun.append((clients.send(b"1", f"X-Request-Timeout-Ms: {timeout_ms}"), due))
    statuses, delays = set(), []
    for sock, due in begun:
        statuses.add(receive(sock)[0])
        delays.append(monotonic() - due)
    assert statuses == {504}
    assert min(delays) >= 0, "before its deadline"
    return median(delays)


def test_request_without_time_reaches_no_worker(clients):
    assert receive(clients.send(b"1", "X-Request-Timeout-Ms: 0"))[0] == 504
    receive(clients.send(b"next"))

    assert bodies(clients.front_end.worker.batches.get(timeout=WAIT_S)) == [b"next"]
