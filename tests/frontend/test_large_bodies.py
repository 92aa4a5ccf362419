# SPDX-License-Identifier: Apache-2.0
"""Large bodies and answers through shared memory, at the front-end's end."""

import os
import socket
import threading
from contextlib import ExitStack
from time import monotonic

import pytest

from servekit.ipc.batches import Slab
from servekit.ipc.table import ReplicaRow
from tests.waiting import wait_until

from .clients import Clients, hold_one, resident, wait_for_queue
from .conftest import WAIT_S, ScriptedWorker, post, receive

BODY = os.urandom(300_000)
HEAD = b"POST /echo/predict HTTP/1.1\r\nHost: test\r\nContent-Length: 300000\r\n\r\n"


@pytest.fixture
def small_arena(start):
    """A front-end with room for two large bodies."""
    return start(arena=700_000)


def next_item(front_end):
    (item,) = front_end.worker.batches.get(timeout=WAIT_S)
    return item


@pytest.mark.parametrize("piece", [300_000, 7_777, 65_536])
def test_large_body_reaches_the_worker_in_shared_memory(shared, piece):
    with shared.connect() as sock:
        sock.sendall(HEAD)
        for start in range(0, len(BODY), piece):
            sock.sendall(BODY[start : start + piece])

        assert receive(sock)[::2] == (200, BODY)
        assert isinstance(next_item(shared).body, Slab)


def test_connection_goes_on_after_a_large_body(shared):
    with shared.connect() as sock:
        for body in (b"small", BODY, b"small again", BODY):
            sock.sendall(post(body))
            assert receive(sock)[2] == body
            next_item(shared)


def test_expect_continue_before_a_large_body(shared):
    with shared.connect() as sock:
        sock.sendall(HEAD.replace(b"Host", b"Expect: 100-continue\r\nHost"))
        assert sock.recv(64) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(BODY)

        assert receive(sock)[::2] == (200, BODY)
    next_item(shared)


CHUNKED = b"POST /echo/predict HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunks(body: bytes, size: int) -> bytes:
    """Return *body* in chunks of *size* bytes."""
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@pytest.mark.parametrize("size", [300_000, 7_777, 100])
def test_chunked_large_body_reaches_the_worker_in_shared_memory(shared, size):
    with shared.connect() as sock:
        sock.sendall(CHUNKED + chunks(BODY, size))

        assert receive(sock)[::2] == (200, BODY)
        assert next_item(shared).body.size == len(BODY)
        sock.sendall(post(b"next"))
        assert receive(sock)[::2] == (200, b"next")
        next_item(shared)


def test_chunked_body_gets_more_room_as_it_grows(start):
    front_end = start(arena=2**21, max_body=2**20)  # it begins with 128 KiB
    body = os.urandom(1_000_000)
    with front_end.connect() as sock:
        for _ in range(3):
            sock.sendall(CHUNKED + chunks(body, 50_000))
            assert receive(sock)[::2] == (200, body)

    wait_until(lambda: resident(front_end) == 0, "the arena is empty and trimmed")


def test_chunked_body_waits_for_room_as_others_do(start):
    # room for 16 in whole pages, and for the last of them to grow to the limit
    front_end = start(arena=16 * 303_104 + 60_000, max_body=350_000)
    front_end.publish(max_batch_size=16, capacity=32)
    with ExitStack() as stack:
        clients = Clients(front_end, stack)
        socks = [hold_one(front_end, clients)]
        for waiting in range(1, 17):  # one after the other: none grows while another does
            socks.append(stack.enter_context(front_end.connect()))
            socks[-1].sendall(CHUNKED + chunks(BODY, 9_999))
            wait_for_queue(front_end, waiting)
        late = [stack.enter_context(front_end.connect()) for _ in range(4)]
        threads = [
            threading.Thread(target=sock.sendall, args=(CHUNKED + chunks(BODY, 9_999),))
            for sock in late
        ]
        for thread in threads:
            thread.start()
        front_end.worker.is_holding = False
        front_end.worker.release()

        assert receive(socks[0])[::2] == (200, b"first")
        assert [receive(sock)[::2] for sock in socks[1:] + late] == [(200, BODY)] * 20
        for thread in threads:
            thread.join(WAIT_S)


def test_chunked_body_that_finds_no_room_to_grow_is_refused(start):
    front_end = start(arena=2**20, max_body=700_000)
    front_end.worker.is_holding = True
    with front_end.connect() as first, front_end.connect() as second:
        for sock in (first, second):
            sock.sendall(CHUNKED + chunks(bytes(600_000), 50_000))
            next_item(front_end) if sock is first else None

        assert receive(second)[0] == 429
        front_end.worker.release()
        assert receive(first)[0] == 200


def test_chunked_body_over_the_limit_is_refused_and_leaves_no_memory(start):
    front_end = start(max_body=200_000)
    with front_end.connect() as sock:
        sock.sendall(CHUNKED + chunks(BODY, 50_000))
        assert receive(sock)[0] == 413

    wait_until(lambda: resident(front_end) == 0, "the arena is empty and trimmed")


def test_large_body_for_another_route_is_no_prediction(shared):
    with shared.connect() as sock:
        sock.sendall(post(BODY, path="/nope/predict"))

        assert receive(sock)[0] == 404


def test_body_larger_than_the_arena_travels_in_the_frame(start):
    front_end = start(arena=100_000)
    with front_end.connect() as sock:
        sock.sendall(post(BODY))

        assert receive(sock)[::2] == (200, BODY)


def test_no_room_means_waiting_and_then_429(start):
    front_end = start(arena=700_000, body_timeout=0.5)
    front_end.worker.is_holding = True
    with ExitStack() as stack:
        socks = [stack.enter_context(front_end.connect()) for _ in range(3)]
        for sock in socks[:2]:
            sock.sendall(post(BODY))
        wait_until(lambda: resident(front_end) >= 2 * len(BODY), "both bodies are in the arena")
        started = monotonic()
        socks[2].sendall(HEAD + BODY[:1000])
        status, headers, _ = receive(socks[2])

        assert (status, headers["retry-after"]) == (429, "1")
        assert monotonic() - started >= 0.5


def test_body_that_waited_for_room_is_received_when_there_is_some(start):
    front_end = start(arena=700_000)
    front_end.worker.is_holding = True
    with ExitStack() as stack:
        socks = [stack.enter_context(front_end.connect()) for _ in range(5)]
        for sock in socks:
            sock.sendall(post(BODY))
        next_item(front_end)
        front_end.worker.is_holding = False
        front_end.worker.release()

        assert [receive(sock)[::2] for sock in socks] == [(200, BODY)] * 5


@pytest.mark.parametrize("sent", [0, 1000, 200_000])
def test_upload_that_is_given_up_leaves_no_memory(small_arena, sent):
    for _ in range(4):
        sock = small_arena.connect()
        sock.sendall(HEAD + BODY[:sent])
        sock.close()
    with small_arena.connect() as sock:
        sock.sendall(post(BODY))
        assert receive(sock)[0] == 200

    wait_until(lambda: resident(small_arena) == 0, "the arena is empty and trimmed")


def test_upload_that_ends_early_is_refused(shared):
    with shared.connect() as sock:
        sock.sendall(HEAD + BODY[:1000])
        sock.shutdown(socket.SHUT_WR)

        assert receive(sock)[0] == 400


def test_slow_upload_gets_408(start):
    front_end = start(body_timeout=0.3)
    with front_end.connect() as sock:
        sock.sendall(HEAD + BODY[:1000])

        assert receive(sock)[0] == 408


def test_slab_is_not_reused_while_the_worker_holds_it(small_arena):
    small_arena.worker.is_holding = True
    with ExitStack() as stack:
        late = stack.enter_context(small_arena.connect())
        late.sendall(post(BODY, "X-Request-Timeout-Ms: 1500"))
        held = next_item(small_arena).body
        assert receive(late)[0] == 504
        other = stack.enter_context(small_arena.connect())
        other.sendall(post(b"y" * 300_000))
        small_arena.worker.is_holding = False
        assert bytes(small_arena.worker.bodies.view(held)) == BODY
        small_arena.worker.release()

        assert receive(other)[::2] == (200, b"y" * 300_000)


def test_dead_workers_slabs_come_back_with_its_replacement(small_arena):
    small_arena.worker.is_holding = True
    with ExitStack() as stack:
        socks = [stack.enter_context(small_arena.connect()) for _ in range(2)]
        socks[0].sendall(post(BODY))
        next_item(small_arena)
        small_arena.worker.die()
        assert receive(socks[0])[0] == 503
        replacement = ScriptedWorker(small_arena.run_dir / "second.sock", generation=2)
        small_arena.publish(replicas=[ReplicaRow(0, 2, str(replacement.address), "serving")])

        wait_until(lambda: resident(small_arena) == 0, "the arena is empty and trimmed")


def test_large_answer_is_sent_from_shared_memory_and_given_back(shared):
    slab = shared.worker.arena.allocate(len(BODY))
    shared.worker.arena.view(slab)[:] = BODY
    usual = shared.worker.answer
    shared.worker.answer = lambda item: ("", "application/octet-stream", slab)
    with shared.connect() as sock:
        sock.sendall(post(b"1"))
        answer = receive(sock)
    shared.worker.answer = usual

    assert answer[::2] == (200, BODY)
    wait_until(lambda: slab.offset in shared.worker.freed, "the answer's slab is given back")


def test_answer_behind_the_arena_is_sent_from_there_and_given_back(start):
    front_end = start(arena=65_536)
    slabs = [front_end.worker.arena.allocate(len(BODY)) for _ in range(2)]
    for slab in slabs:
        front_end.worker.arena.write(slab, BODY)
    front_end.worker.answer = lambda item: ("", "x/y", slabs[int(item.body)])
    with front_end.connect() as sock:
        for number in (b"0", b"1"):
            sock.sendall(post(number))
            assert receive(sock)[::2] == (200, BODY)

    offsets = {slab.offset for slab in slabs}
    wait_until(lambda: offsets <= {*front_end.worker.freed}, "both slabs are given back")


def test_slow_reader_of_a_large_answer_holds_up_nobody(shared):
    large = os.urandom(8_000_000)
    slab = shared.worker.arena.allocate(len(large))
    shared.worker.arena.view(slab)[:] = large
    usual = shared.worker.answer
    shared.worker.answer = lambda item: ("", "x/y", slab) if item.body == b"large" else usual(item)
    with shared.connect() as slow, shared.connect() as quick:
        slow.sendall(post(b"large"))
        quick.sendall(post(b"quick"))
        assert receive(quick)[2] == b"quick"

        assert receive(slow)[::2] == (200, large)
    shared.worker.answer = usual
