# SPDX-License-Identifier: Apache-2.0
"""How much of what a client sends is read at once."""

import socket
from unittest.mock import Mock

import gevent
import pytest

from servekit.frontend.http.socket_reader import HEAD_BYTES, SocketReader

NEXT = b"n" * (HEAD_BYTES + 10_000)


@pytest.fixture
def reader():
    """A reader, its owner, and the client."""
    ours, client = socket.socketpair()
    with ours, client:
        ours.setblocking(False)
        owner = Mock()
        reader = SocketReader(ours, gevent.get_hub().loop, owner)
        yield reader, owner, client
        reader.close()


def upload(sock: socket.socket, size: int) -> Mock:
    """Return an upload that takes *size* bytes of *sock*."""
    return Mock(receive=lambda _: len(sock.recv(size)) == size)


def read_by(owner: Mock) -> list[bytes]:
    return [call.args[0] for call in owner.on_data.call_args_list]


def test_after_a_large_body_little_is_read_besides_the_next_head(reader):
    reader, owner, client = reader
    client.sendall(b"body" + NEXT)
    reader.upload = upload(reader._socket, 4)
    for _ in range(3):
        reader.read()

    assert read_by(owner) == [NEXT[:HEAD_BYTES], NEXT[HEAD_BYTES:]]


def test_without_a_large_body_all_is_read(reader):
    reader, owner, client = reader
    client.sendall(NEXT)
    reader.read()

    assert read_by(owner) == [NEXT]


def test_part_of_a_large_body_changes_nothing(reader):
    reader, owner, client = reader
    client.sendall(b"part")
    reader.upload = upload(reader._socket, 8)
    reader.read()
    client.sendall(NEXT)
    reader.upload = None
    reader.read()

    assert read_by(owner) == [NEXT]
