# SPDX-License-Identifier: Apache-2.0
"""Several front-ends of one server, and their clients."""

import socket
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.waiting import wait_until

from .test_management import front_ends

pytestmark = pytest.mark.slow

MODELS = Path(__file__).parent / "models"

LIVE = b"GET /ping/live HTTP/1.1\r\nHost: a\r\n\r\n"


def sockets_of(pid):
    """Count the sockets of a process."""
    count = 0
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            count += str(path.readlink()).startswith("socket:")
    return count


def shares_of(server, pids, count):
    """Return how many of *count* connections, all opened at once, each front-end has taken."""
    before = [sockets_of(pid) for pid in pids]
    with ExitStack() as stack:
        address = ("127.0.0.1", server.port)
        clients = [stack.enter_context(socket.create_connection(address)) for _ in range(count)]
        for client in clients:
            client.sendall(LIVE)
            assert client.recv(4096).startswith(b"HTTP/1.1 200")
        after = [sockets_of(pid) for pid in pids]
    wait_until(
        lambda: all(map(int.__le__, map(sockets_of, pids), before)), "the connections are closed"
    )
    return [now - then for now, then in zip(after, before, strict=True)]


def test_connections_are_shared_by_all_front_ends(serve):
    server = serve("--models", MODELS / "points", "--front-ends=2")
    pids = front_ends(server)[1:]  # the first is the parent of the others

    rounds = []
    for _ in range(20):  # a busy machine may stop one of them for a while
        rounds.append(shares_of(server, pids, 64))
        # a connection of before may be closed meanwhile
        if sum(rounds[-1]) == 64 and min(rounds[-1]) >= 16:
            return
    pytest.fail(f"one front-end took nearly all: {rounds}")
