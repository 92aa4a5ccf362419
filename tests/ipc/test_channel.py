# SPDX-License-Identifier: Apache-2.0
"""Frames survive any way of being cut, and nothing else passes for one."""

import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servekit.ipc.batches import (
    Freed,
    Hello,
    Item,
    Ping,
    Pong,
    Predict,
    Reply,
    ReplyMessage,
    RequestMessage,
    Welcome,
)
from servekit.ipc.channel import (
    HEADER,
    MAX_FRAME_BYTES,
    READ_BYTES,
    ChannelClosed,
    FrameReader,
    encode_frame,
)

items = st.builds(
    Item,
    st.binary(max_size=300),
    st.binary(max_size=20),
    st.binary(max_size=20),
    st.text(max_size=20),
    st.floats(allow_nan=False),
)
messages = st.one_of(
    st.builds(Predict, st.integers(0, 2**63), st.lists(items, max_size=5)), st.just(Ping())
)


class CutSocket:
    """Delivers bytes in pieces of the given sizes, then the rest, then the end of file."""

    def __init__(self, data, sizes):
        self.data, self.sizes = memoryview(data), list(sizes)

    def recv_into(self, view):
        size = min(len(view), self.sizes.pop(0) if self.sizes else len(view))
        piece, self.data = self.data[:size], self.data[size:]
        view[: len(piece)] = piece
        return len(piece)


def read_all(sock, kinds):
    reader, found = FrameReader(sock, kinds), []
    while True:
        try:
            found += reader.read()
        except ChannelClosed:
            return found


@given(st.lists(messages, max_size=6), st.lists(st.integers(1, 400), max_size=30))
def test_messages_arrive_whole_and_in_order_however_they_are_cut(sent, sizes):
    data = b"".join(bytes(encode_frame(message)) for message in sent)

    assert read_all(CutSocket(data, sizes), RequestMessage) == sent


@given(st.binary(max_size=200))
def test_bytes_that_are_no_frames_end_the_channel_and_nothing_else(data):
    read_all(CutSocket(data, []), RequestMessage)


LIES = st.sampled_from(
    [
        *(b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff"),
        *(b"\xa1\xff", b"\xc1", b"\xc0", b"\xd9\xff", b"\x91" * 50, b"\xcf" + b"\xff" * 8, b""),
    ]
)


@given(messages, st.data())
def test_a_frame_that_lies_inside_is_a_message_or_the_end_of_the_channel(message, data):
    payload = bytes(encode_frame(message))[HEADER.size :]
    at = data.draw(st.integers(0, len(payload)))
    lie = payload[:at] + data.draw(LIES) + payload[at + data.draw(st.integers(0, 5)) :]

    found = read_all(CutSocket(HEADER.pack(len(lie)) + lie, []), RequestMessage)
    assert all(isinstance(each, Predict | Ping | Welcome | Freed) for each in found)


@given(st.lists(messages, min_size=1, max_size=3), st.integers(-9, 9))
def test_a_frame_of_another_size_than_it_says_never_becomes_two_messages(sent, off):
    first, *rest = [bytearray(encode_frame(message)) for message in sent]
    (size,) = HEADER.unpack_from(first)
    HEADER.pack_into(first, 0, max(0, size + off))

    found = read_all(CutSocket(bytes(first) + b"".join(map(bytes, rest)), []), RequestMessage)
    assert found == sent if off == 0 else len(found) <= len(sent)


def test_a_text_that_is_no_utf_8_ends_the_channel():
    frame = bytes(encode_frame(Pong("reason"))).replace(b"reason", b"reas\xff\xff")

    assert read_all(CutSocket(frame, []), ReplyMessage) == []


@pytest.mark.parametrize("size", [READ_BYTES - 20, READ_BYTES, READ_BYTES + 20, 5 * READ_BYTES])
def test_large_frame_is_read_and_small_ones_after_it(size):
    large = Reply(7, [("", "x", bytes(size))], 0.0, 0.0, 0.0)
    left, right = socket.socketpair()
    with left, right:
        data = bytes(encode_frame(large)) + bytes(encode_frame(Pong("")))
        sender = threading.Thread(target=left.sendall, args=(data,))
        sender.start()
        reader, found = FrameReader(right, ReplyMessage), []
        while len(found) < 2:
            found += reader.read()
        sender.join()

    assert found == [large, Pong("")]


def test_a_frame_that_comes_in_many_reads_is_moved_a_few_times_and_leaves_no_large_buffer():
    body = bytes(200 * READ_BYTES)
    data = bytes(encode_frame(Reply(7, [("", "x", body)], 0.0, 0.0, 0.0))) + b"\1"
    reader = FrameReader(CutSocket(data, [READ_BYTES // 8] * 1600), ReplyMessage)
    usual, buffers, found = reader._view, [], []
    while not found:
        found = reader.read()
        if not buffers or reader._view is not buffers[-1]:
            buffers.append(reader._view)

    assert [len(answer[2]) for answer in found[0].answers] == [len(body)]
    assert len(buffers) < 12  # each twice as long as the one before it
    assert reader._view is usual


def test_announced_size_over_the_limit_ends_the_channel_before_memory_is_taken():
    sock = CutSocket(HEADER.pack(MAX_FRAME_BYTES + 1) + b"x", [])

    with pytest.raises(ChannelClosed, match="limit"):
        FrameReader(sock, RequestMessage).read()


def test_message_of_the_other_direction_ends_the_channel():
    sock = CutSocket(bytes(encode_frame(Hello(1))), [])

    with pytest.raises(ChannelClosed):
        FrameReader(sock, RequestMessage).read()


def test_buffer_is_used_again():
    buffer = bytearray(1000)

    assert encode_frame(Ping(), buffer) is buffer
    assert buffer == encode_frame(Ping())
