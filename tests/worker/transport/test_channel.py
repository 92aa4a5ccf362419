# SPDX-License-Identifier: Apache-2.0
"""Large bodies and answers through shared memory, at the worker's end."""

import json

import msgpack
import numpy as np
import pytest

from servekit.ipc.batches import Freed, Ping, Pong, Predict, Slab
from tests.worker.worker_process import ARENA_BYTES, item

RAW = "application/octet-stream"


def slab_item(channel, body, content_type=RAW):
    return item(channel.lay_out(body), content_type)


def floats(*values):
    return np.array(values, np.float32).tobytes()


def predictions(answers):
    return [json.loads(body)["prediction"] for _, body in answers]


def npy(array):
    import io

    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


X = np.arange(4, dtype=np.float32)
BODIES = {
    "raw": (X.tobytes(), RAW),
    "npy": (npy(X), "application/x-npy"),
    "msgpack": (
        msgpack.packb({"x": msgpack.ExtType(78, msgpack.packb(["float32", [4], X.tobytes()]))}),
        "application/msgpack",
    ),
    "JSON": (b'{"x": [0, 1, 2, 3]}', "application/json"),
    "form": (
        b'--b\r\nContent-Disposition: form-data; name="x"; filename="x"\r\n'
        b"Content-Type: application/octet-stream\r\n\r\n" + X.tobytes() + b"\r\n--b--\r\n",
        "multipart/form-data; boundary=b",
    ),
}


@pytest.mark.parametrize(("body", "content_type"), BODIES.values(), ids=BODIES)
def test_body_in_shared_memory_is_read_like_any_other(start, body, content_type):
    channel = start("views:Sums").boot().connect()

    assert predictions(channel.predict(slab_item(channel, body, content_type))) == [6.0]
    assert channel.reply.held == []


def test_small_and_large_bodies_share_a_batch(start):
    channel = start("views:Sums").boot().connect()
    items = [item(floats(1, 2), RAW), slab_item(channel, floats(3, 4)), item(floats(5, 6), RAW)]

    assert predictions(channel.predict(*items)) == [3.0, 7.0, 11.0]


def test_body_of_a_service_without_types_is_bytes_of_its_own(start):
    channel = start("echo:Echo").boot().connect()

    assert channel.predict(slab_item(channel, b"x" * 5000)) == [(RAW, b"x" * 5000)]
    assert channel.reply.held == []


def test_preprocess_may_look_at_the_buffer_without_a_copy(start):
    channel = start("views:Buffers").boot().connect()
    answers = channel.predict(slab_item(channel, floats(1, 2)), item(floats(3), RAW))

    assert predictions(answers) == [["memoryview", 3.0, 8], ["bytes", 3.0, 4]]


def test_array_that_the_service_keeps_is_named_until_it_lets_go(start):
    channel = start("views:Holder").boot().connect()
    first = slab_item(channel, floats(1, 2))
    channel.predict(first)
    assert channel.reply.held == [first.body.offset]
    assert predictions(channel.predict(item(floats(9), RAW))) == [3.0]
    assert channel.reply.held == [first.body.offset]
    channel.predict(item(floats(-1), RAW))

    assert channel.reply.held == []


def test_let_go_between_batches_is_told_at_the_next_ping(start):
    channel = start("views:Holder").boot().connect()
    channel.predict(slab_item(channel, floats(1, 2)))
    channel.send(Ping())

    assert channel.receive_many(2) == [Pong(""), Freed([])]


def test_large_answer_comes_in_shared_memory_and_its_room_is_used_again(start):
    channel = start("views:Large").boot().connect()
    offsets = set()
    for turn in range(10):
        freed = sorted(offsets) if turn else []
        channel.send(Predict(turn + 1, [item(300_000), item(10)], freed))
        reply = channel.receive()
        large, small = (answer[2] for answer in reply.answers)
        assert isinstance(large, Slab)
        assert (channel.bytes_of(large), small) == (bytes(300_000), bytes(10))
        offsets = {large.offset}

    assert offsets == {0} or max(offsets) < ARENA_BYTES


def test_answers_that_find_no_room_lie_behind_the_arena_while_they_are_needed(start):
    channel = start("views:Large").boot().connect()
    size = ARENA_BYTES - 4096
    answers = channel.predict(*[item(size) for _ in range(4)])
    slabs = [answer[2] for answer in channel.reply.answers]

    assert [len(body) for _, body in answers] == [size] * 4
    assert [slab.offset + slab.size > ARENA_BYTES for slab in slabs] == [False, True, True, True]
    assert channel.answers_bytes == 4 * size
    channel.send(Freed([slab.offset for slab in slabs]))
    assert channel.predict(item(1))
    assert channel.answers_bytes == 0


def test_slab_outside_the_arena_closes_that_channel_only(start):
    worker = start("views:Sums").boot()
    broken, good = worker.connect(), worker.connect()
    broken.send(Predict(1, [item(Slab(1 << 40, 8), RAW)]))

    assert broken.sock.recv(1) == b""
    assert predictions(good.predict(item(floats(1), RAW))) == [1.0]
