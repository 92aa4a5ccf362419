# SPDX-License-Identifier: Apache-2.0
"""Slow clients are as slow as they should be, and what a process holds is counted."""

import os
import select
import socket
from itertools import pairwise

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived

from tests.faults.procfs import held_bytes
from tests.faults.slow_kinds import KINDS, STREAMS, begin

MIB = 2**20
REFUSAL = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)
        yield listener


def pump(client, server, size):
    """Let *client* write until *server* has got *size* bytes; return them."""
    got = b""
    while len(got) < size:
        client.write()
        assert select.select([server], [], [], 10)[0], f"only {len(got)} of {size} bytes came"
        got += server.recv(MIB)
    return got


@pytest.mark.parametrize("name", ["uploads", "chunked"])
def test_a_slow_upload_says_much_at_once_and_then_a_drop(listener, name):
    client, kind = begin(name, listener.getsockname()[1]), KINDS[name]
    server, _ = listener.accept()
    with server, client.sock:
        got = pump(client, server, len(kind.head) + len(kind.bulk))
        client.drop()
        assert (client.filled, got + pump(client, server, 1)) == (
            1,
            kind.head + kind.bulk + kind.drop,
        )
        server.sendall(REFUSAL)
        assert select.select([client.sock], [], [], 10)[0]
        assert (client.hear(), client.is_over) == (["408"], True)


def test_a_reader_of_a_large_answer_reads_its_first_bytes_only(listener):
    client = begin("large_readers", listener.getsockname()[1])
    server, _ = listener.accept()
    with server, client.sock:
        pump(client, server, len(KINDS["large_readers"].head))
        server.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")
        assert select.select([client.sock], [], [], 10)[0]
        assert (client.hear(), client.is_over) == ([], False)
        assert not client.events & select.EPOLLIN


def test_slow_streams_send_what_flow_control_allows(listener):
    """The server gives each stream its first window and no more."""
    client = begin("streams", listener.getsockname()[1])
    sock, _ = listener.accept()
    server = H2Connection(H2Configuration(client_side=False))
    server.initiate_connection()
    server.increment_flow_control_window(STREAMS * 65_535)
    events, total = [], 0
    with sock, client.sock:
        sock.sendall(server.data_to_send())
        while total < STREAMS * 65_535:
            if select.select([client.sock], [], [], 0)[0]:
                assert client.hear() == []
            client.write()
            assert select.select([sock], [], [], 10)[0], f"only {total} bytes came"
            events += server.receive_data(sock.recv(MIB))
            total = sum(len(each.data) for each in events if isinstance(each, DataReceived))
    streams = {each.stream_id for each in events if isinstance(each, RequestReceived)}

    assert (len(streams), client.filled) == (STREAMS, 0)


def test_anonymous_files_are_held_as_a_whole_whoever_touched_them():
    """Neither open nor mapped memory is missed, and what is both is counted once."""
    piece, descriptor = b"x" * 8 * MIB, os.memfd_create("test")
    sizes = [held_bytes(os.getpid(), [])]
    for number in range(3):
        os.pwrite(descriptor, piece, number * len(piece))
        sizes.append(held_bytes(os.getpid(), []))
    os.close(descriptor)

    more = [(after - before) / MIB for before, after in pairwise(sizes)]
    assert more == pytest.approx([8, 8, 8], abs=2)
