# SPDX-License-Identifier: Apache-2.0
"""A new version takes over in a running front-end: no request is lost, and each has one answer."""

import socket
from contextlib import ExitStack, closing

import pytest

from servekit.ipc.channel import encode_frame
from servekit.ipc.table import ReplicaRow, Table, TableUpdate, TrafficRow
from tests.waiting import wait_until

from .clients import Clients, hold_one, wait_for_queue
from .conftest import WAIT_S, ScriptedWorker, post, receive

LARGE = 200_000


@pytest.fixture
def swapped(start):
    """Return a front-end whose worker holds a request, and how to publish a second version."""
    front_end = start()
    with ExitStack() as stack:
        clients = Clients(front_end, stack)
        second = ScriptedWorker(front_end.run_dir / "second.sock")
        stack.callback(second.close)

        def swap(**changes):
            row = ReplicaRow(1, 1, str(second.address), "serving")
            front_end.publish(version="2.0", replicas=[row], **changes)
            assert second.greeted.wait(WAIT_S), "the front-end did not open a channel"
            return second

        yield front_end, clients, swap


def versions_of(sockets):
    answers = [receive(sock) for sock in sockets]
    assert {status for status, _, _ in answers} == {200}
    return [headers["x-model-version"] for _, headers, _ in answers]


def test_the_old_version_answers_what_it_has_and_the_new_one_the_rest(swapped):
    front_end, clients, swap = swapped
    old = [hold_one(front_end, clients)]
    old += [clients.send(b"%d" % i) for i in range(5)]
    wait_for_queue(front_end, 5)
    second = swap()
    assert versions_of([clients.send(b"new") for _ in range(3)]) == ["2.0"] * 3
    front_end.worker.is_holding = False
    front_end.worker.release()

    assert versions_of(old) == ["1.0"] * 6
    wait_until(
        lambda: has_lost_its_channel(front_end.worker), "the channel to the old version is closed"
    )
    assert not has_lost_its_channel(second)


def test_what_waits_for_a_worker_that_dies_goes_to_the_new_version(swapped):
    front_end, clients, swap = swapped
    first = hold_one(front_end, clients)
    waiting = [clients.send(b"%d" % i) for i in range(5)]
    wait_for_queue(front_end, 5)
    swap()
    front_end.worker.die()

    assert receive(first)[0] == 503  # it may have caused the death
    assert versions_of(waiting) == ["2.0"] * 5


def test_a_body_that_arrives_during_the_change_is_answered_by_the_new_version(swapped):
    front_end, clients, swap = swapped
    with front_end.connect() as sock:
        request = post(b"x" * LARGE)
        sock.sendall(request[: LARGE // 2])
        hold_one(front_end, clients)  # it has been read so far
        swap()
        sock.sendall(request[LARGE // 2 :])

        assert versions_of([sock]) == ["2.0"]


def test_an_unloaded_model_answers_what_it_has(swapped):
    front_end, clients, _ = swapped
    first = hold_one(front_end, clients)
    waiting = clients.send(b"waiting")
    wait_for_queue(front_end, 1)
    front_end.control.sendall(encode_frame(TableUpdate(Table([]), [])))
    wait_until(lambda: receive(clients.send(b"late"))[0] == 404, "the model is unloaded")
    front_end.worker.is_holding = False
    front_end.worker.release()

    assert versions_of([first, waiting]) == ["1.0", "1.0"]


def test_the_same_version_loaded_anew_has_other_workers(swapped):
    front_end, clients, _ = swapped
    first = hold_one(front_end, clients)
    front_end.control.sendall(encode_frame(TableUpdate(Table([]), [])))
    wait_until(lambda: receive(clients.send(b"late"))[0] == 404, "the model is unloaded")
    with closing(ScriptedWorker(front_end.run_dir / "anew.sock")) as anew:
        front_end.publish(replicas=[ReplicaRow(0, 1, str(anew.address), "serving")])
        assert anew.greeted.wait(WAIT_S), "the front-end did not open a channel"

        assert versions_of([clients.send(b"new")]) == ["1.0"]
        front_end.worker.is_holding = False
        front_end.worker.release()
        assert versions_of([first]) == ["1.0"]
        wait_until(lambda: has_lost_its_channel(front_end.worker), "its channel is closed")


def test_versions_answer_side_by_side(swapped):
    front_end, clients, swap = swapped
    second = front_end.make_row(version="1.0")
    swap(
        versions=[second], traffic=TrafficRow(aliases={"old": "1.0"}, weights={"1.0": 1, "2.0": 1})
    )
    asked = []
    for path in ("/echo/versions/old/predict", "/echo/versions/2.0/predict"):
        sock = clients.stack.enter_context(front_end.connect())
        sock.sendall(post(b"1", path=path))
        asked.append(sock)

    assert versions_of(asked) == ["1.0", "2.0"]
    assert sorted(versions_of([clients.send(b"1") for _ in range(6)])) == ["1.0"] * 3 + ["2.0"] * 3


def test_refusals_of_a_model_have_its_version(swapped):
    front_end, clients, _ = swapped
    hold_one(front_end, clients)
    late = receive(clients.send(b"late", "X-Request-Timeout-Ms: 100"))
    malformed = receive(clients.send(b"1", "X-Request-Timeout-Ms: x"))
    with front_end.connect() as sock:
        sock.sendall(b"GET /ping HTTP/1.1\r\nHost: a\r\n\r\n")
        other = receive(sock)

    assert [(each[0], each[1].get("x-model-version")) for each in (late, malformed, other)] == [
        *((504, "1.0"), (400, "1.0"), (200, None))
    ]


def has_lost_its_channel(worker: ScriptedWorker) -> bool:
    """Whether the front-end has closed the channel of *worker*."""
    try:
        return (
            worker.channel.fileno() < 0
            or worker.channel.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        )
    except BlockingIOError:
        return False
