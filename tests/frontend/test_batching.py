# SPDX-License-Identifier: Apache-2.0
"""Admission, batches, deadlines and lost workers, seen from clients and from the worker."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from threading import Event
from time import monotonic

import pytest

from servekit.ipc.control import Hung
from servekit.ipc.table import ReplicaRow
from tests.faults.procfs import memfds

from .clients import (
    Clients,
    bodies,
    forget_batches,
    hold_one,
    next_batch,
    paused,
    wait_for_queue,
    wait_until_arrived,
)
from .conftest import WAIT_S, ScriptedWorker, post, receive


def test_lone_task_goes_at_once(shared, clients):
    sock = clients.send(b"lone")

    assert receive(sock)[::2] == (200, b"lone")
    assert bodies(next_batch(shared.worker)) == [b"lone"]


def test_batch_is_what_queued_while_the_worker_was_busy(shared, clients):
    first = hold_one(shared, clients)
    others = [clients.send(b"%d" % i) for i in range(10)]
    wait_for_queue(shared, 10)
    shared.worker.is_holding = False
    shared.worker.release()

    assert [receive(sock)[0] for sock in (first, *others)] == [200] * 11
    assert [len(next_batch(shared.worker)) for _ in range(2)] == [8, 2]


def test_requests_that_come_together_are_shared_among_the_idle_workers(start):
    front_end = start()
    second = ScriptedWorker(front_end.run_dir / "second.sock")
    rows = [*front_end.row.replicas, ReplicaRow(1, 1, str(second.address), "serving")]
    with ExitStack() as stack, closing(second.listener):
        clients = Clients(front_end, stack)
        front_end.publish(replicas=rows)
        assert second.greeted.wait(WAIT_S), "the front-end did not open a channel"
        stack.callback(second.die)
        socks = [clients.send(b"first") for _ in range(6)]
        assert [receive(sock)[0] for sock in socks] == [200] * 6
        send_together(front_end, socks)  # the last batch of these has company
        for worker in (front_end.worker, second):
            forget_batches(worker)
        send_together(front_end, socks)

        assert len(next_batch(front_end.worker)) == len(next_batch(second)) == 3


def reasons(front_end):
    """Return how many batches have left, by the reason; none is left out."""
    with front_end.connect() as sock:
        sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
        text = receive(sock)[2].decode()
    series = re.compile(r'^servekit_batches_total{.*reason="(\w+)".*} ([1-9].*)$', re.MULTILINE)
    return {reason: float(count) for reason, count in series.findall(text)}


def test_it_is_counted_why_batches_leave(start):
    front_end = start()
    with ExitStack() as stack:
        clients = Clients(front_end, stack)
        first = hold_one(front_end, clients)
        others = [clients.send(b"%d" % i) for i in range(10)]
        wait_for_queue(front_end, 10)
        front_end.worker.is_holding = False
        front_end.worker.release()
        assert [receive(sock)[0] for sock in (first, *others)] == [200] * 11
        assert reasons(front_end) == {"worker_idle": 2, "full": 1}
        front_end.publish(max_delay_s=0.05)
        assert receive(clients.send(b"late"))[0] == 200
        assert reasons(front_end) == {"worker_idle": 2, "full": 1, "delay_over": 1}


def send_together(front_end, socks):
    """Let the front-end find a request on each of *socks* in one turn of its loop."""
    with paused(front_end):
        for sock in socks:
            sock.sendall(post(b"together"))
        for sock in socks:
            wait_until_arrived(sock)
    assert [receive(sock)[0] for sock in socks] == [200] * len(socks)


def test_every_answer_goes_to_its_own_client(shared):
    def ask(number):
        with shared.connect() as sock:
            for turn in range(20):
                body = b"%d/%d" % (number, turn)
                sock.sendall(post(body))
                if receive(sock)[2] != body:
                    return False
        return True

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(ask, range(16)))


def test_full_queue_answers_429_with_retry_after(shared, clients):
    hold_one(shared, clients)
    for i in range(16):
        clients.send(b"%d" % i)
    wait_for_queue(shared, 16)
    status, headers, body = receive(clients.send(b"one too many"))

    assert status == 429
    assert 1 <= int(headers["retry-after"]) <= 60  # longer if the worker was held for long
    assert json.loads(body)["title"] == "Queue full"


def test_waiting_task_past_its_deadline_gets_504_and_no_worker_sees_it(shared, clients):
    hold_one(shared, clients)
    started = monotonic()
    late = clients.send(b"late", "X-Request-Timeout-Ms: 200")

    assert receive(late)[0] == 504
    assert 0.2 <= monotonic() - started < 30  # not the usual timeout
    shared.worker.is_holding = False
    shared.worker.release()
    receive(clients.send(b"next"))
    assert bodies(next_batch(shared.worker)) == [b"next"]


def test_running_task_past_its_deadline_gets_504_and_the_worker_goes_on(shared, clients):
    shared.worker.is_holding = True
    late = clients.send(b"late", "X-Request-Timeout-Ms: 1500")
    next_batch(shared.worker)

    assert receive(late)[0] == 504
    shared.worker.is_holding = False
    shared.worker.release()
    assert receive(clients.send(b"next"))[::2] == (200, b"next")


@pytest.mark.parametrize("value", ["abc", "-1", "1.5", ""])
def test_malformed_timeout_is_refused(clients, value):
    assert receive(clients.send(b"1", f"X-Request-Timeout-Ms: {value}"))[0] == 400


def test_waiting_task_of_a_client_that_left_never_reaches_a_worker(shared, clients):
    first = hold_one(shared, clients)
    clients.send(b"leaves").close()
    stays = clients.send(b"stays")
    wait_for_queue(shared, 1)
    shared.worker.is_holding = False
    shared.worker.release()

    assert [receive(sock)[0] for sock in (first, stays)] == [200, 200]
    assert bodies(next_batch(shared.worker)) == [b"stays"]


def test_refused_item_does_not_harm_its_neighbours(shared, clients):
    first = hold_one(shared, clients)
    others = [clients.send(body) for body in (b"good", b"bad")]
    wait_for_queue(shared, 2)
    refusal = ("InputError", "", json.dumps({"detail": "x: no", "errors": []}).encode())
    usual = shared.worker.answer
    shared.worker.answer = lambda item: refusal if item.body == b"bad" else usual(item)
    shared.worker.is_holding = False
    shared.worker.release()
    answers = [receive(sock) for sock in (first, *others)]
    shared.worker.answer = usual

    assert [answer[0] for answer in answers] == [200, 200, 422]
    assert json.loads(answers[2][2])["detail"] == "x: no"


def test_internal_error_says_nothing_but_the_request_id(shared, clients):
    usual = shared.worker.answer
    shared.worker.answer = lambda item: ("PredictFailed", "", b'{"detail": "secret"}')
    status, headers, body = receive(clients.send(b"1"))
    shared.worker.answer = usual

    assert (status, b"secret" in body) == (500, False)
    assert json.loads(body)["request_id"] == headers["x-request-id"]


def test_batch_in_a_dying_worker_gets_503_and_the_queue_waits_for_the_next(start):
    front_end = start()
    with ExitStack() as stack:
        clients = Clients(front_end, stack)
        first = hold_one(front_end, clients)
        queued = clients.send(b"queued")
        wait_for_queue(front_end, 1)
        front_end.worker.die()
        status, headers, _ = receive(first)
        assert (status, headers["retry-after"]) == (503, "1")
        replacement = ScriptedWorker(front_end.run_dir / "second.sock", generation=2)
        row = ReplicaRow(0, 2, str(replacement.address), "serving")
        front_end.publish(replicas=[row])

        assert receive(queued)[::2] == (200, b"queued")


def test_replicas_that_come_and_go_leave_no_descriptors(start):
    front_end = start()
    with ExitStack() as stack:
        clients = Clients(front_end, stack)
        assert receive(clients.send(b"first"))[0] == 200
        before = memfds(front_end.pid)
        for index in range(1, 5):
            worker = ScriptedWorker(front_end.run_dir / f"{index}.sock")
            stack.callback(worker.close)
            row = ReplicaRow(index, 1, str(worker.address), "serving")
            front_end.publish(replicas=[row])
            assert worker.greeted.wait(WAIT_S), "the front-end did not open a channel"
            assert receive(clients.send(b"next"))[0] == 200
        deadline = monotonic() + WAIT_S
        while (now := memfds(front_end.pid)) != before:
            assert monotonic() < deadline, f"{now} memfds, {before} before"
            Event().wait(0.02)


def test_worker_that_leaves_is_sent_nothing_more(start):
    front_end = start()
    with ExitStack() as stack:
        clients = Clients(front_end, stack)
        first = hold_one(front_end, clients)
        queued = clients.send(b"queued")
        wait_for_queue(front_end, 1)
        front_end.worker.release(is_last=True)
        assert receive(first)[0] == 200
        front_end.worker.die()
        replacement = ScriptedWorker(front_end.run_dir / "second.sock", generation=2)
        row = ReplicaRow(0, 2, str(replacement.address), "serving")
        front_end.publish(replicas=[row])

        assert receive(queued)[::2] == (200, b"queued")


def test_hung_worker_is_reported_and_its_batch_gets_504(start):
    front_end = start()
    front_end.publish(predict_timeout_s=2.0)
    with ExitStack() as stack:
        first = hold_one(front_end, Clients(front_end, stack))

        assert receive(first)[0] == 504
        report = front_end.hear()
        assert isinstance(report, Hung)
        told = (report.address, report.replica, report.generation)
        assert told == (str(front_end.worker.address), 0, 1)


def test_model_without_a_replica_gets_503_at_once(start):
    front_end = start()
    front_end.publish(replicas=[ReplicaRow(0, 1, "", "failed", "no such file")])
    deadline = monotonic() + WAIT_S
    status = 200
    while status == 200 and monotonic() < deadline:
        with front_end.connect() as sock:
            sock.sendall(post(b"1"))
            status, headers, _ = receive(sock)

    assert (status, headers["retry-after"]) == (503, "1")


def test_model_without_a_replica_says_when_the_next_worker_is_started(start):
    front_end = start()
    row = ReplicaRow(0, 1, "", "failed", "crashed", next_try=monotonic() + 50)
    front_end.publish(replicas=[row])
    deadline = monotonic() + WAIT_S
    status = 200
    while status == 200 and monotonic() < deadline:
        with front_end.connect() as sock:
            sock.sendall(post(b"1"))
            status, headers, _ = receive(sock)

    assert status == 503
    assert 1 < int(headers["retry-after"]) <= 50


def test_partial_batch_is_held_for_company_no_longer_than_max_delay(start):
    front_end = start()
    front_end.publish(max_delay_s=0.3, max_batch_size=2)
    with ExitStack() as stack:
        clients = Clients(front_end, stack)
        wait_until_taken(front_end, clients)
        started = monotonic()
        lone = clients.send(b"lone")
        receive(lone)
        assert monotonic() - started > 0.2
        next_batch(front_end.worker)
        pair = [clients.send(b"a"), clients.send(b"b")]
        for sock in pair:
            receive(sock)

        assert len(next_batch(front_end.worker)) == 2


def wait_until_taken(front_end, clients):
    """Wait until the front-end has taken the published table: a lone task is held back."""
    deadline = monotonic() + WAIT_S
    while monotonic() < deadline:
        started = monotonic()
        receive(clients.send(b"probe"))
        next_batch(front_end.worker)
        if monotonic() - started > 0.2:
            return
    raise AssertionError("the new table was not taken")


def test_sigterm_answers_what_is_in_flight_and_leaves_with_0(start):
    front_end = start()
    with ExitStack() as stack:
        first = hold_one(front_end, Clients(front_end, stack))
        front_end.process.terminate()
        front_end.worker.release()

        assert receive(first)[::2] == (200, b"first")
    assert front_end.process.wait(WAIT_S) == 0


def test_what_outlasts_the_grace_gets_503(start):
    front_end = start(grace=0.5)
    with ExitStack() as stack:
        clients = Clients(front_end, stack)
        inside = hold_one(front_end, clients)
        queued = clients.send(b"queued")
        wait_for_queue(front_end, 1)
        started = monotonic()
        front_end.process.terminate()

        assert [receive(sock)[0] for sock in (inside, queued)] == [503, 503]
        assert 0.5 <= monotonic() - started < 25  # not the usual grace
    assert front_end.process.wait(WAIT_S) == 0


def test_server_timing_names_every_part(clients):
    timing = receive(clients.send(b"1"))[1]["server-timing"]

    names = [part.strip().partition(";")[0] for part in timing.split(",")]
    assert names == ["queue", "batch", "predict", "encode", "ipc"]
