# SPDX-License-Identifier: Apache-2.0
"""The connection to a front-end: updates of the routing table, also for one that reads slowly."""

import socket

import pytest

from servekit.ipc.channel import FrameReader
from servekit.ipc.control import Hung
from servekit.ipc.table import ModelRow, Table, TableUpdate
from servekit.supervisor.os.channel import ControlChannel
from servekit.supervisor.os.loop import Loop
from servekit.supervisor.server.control import FrontEndLink

LARGE = 1_000_000


def row(number, description=""):
    return ModelRow(f"m{number}", "1", description, [], 1, 0.0, 0.0, 1, number=number)


@pytest.fixture
def linked():
    """Return a link, and a function that returns the next table of its front-end."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(10)
    loop, link, rows, waiting = Loop(), FrontEndLink(), {}, []
    link.channel = ControlChannel(loop, ours, Hung, lambda _message: None, lambda: None)
    reader = FrameReader(theirs, TableUpdate)
    loop.call_later(10, lambda: pytest.fail("no table came in ten seconds"))
    loop.watch(theirs.fileno(), lambda _events: (waiting.extend(reader.read()), loop.stop()))

    def receive():
        nonlocal rows
        while not waiting:
            loop.run()
        update = waiting.pop(0)
        table = update.applied(rows)
        rows = {each.number: each for each in table.models}
        return table, len(update.table.models)

    yield link, receive
    ours.close()
    theirs.close()


def test_only_changes_are_sent(linked):
    link, receive = linked
    first = Table([row(0), row(1)])
    second = Table([row(0, "changed"), row(1), row(2)])
    link.send(first)
    link.send(second)

    assert [receive(), receive()] == [(first, 2), (second, 2)]


def test_a_front_end_that_reads_slowly_gets_all_that_it_has_missed(linked):
    link, receive = linked
    first = Table([row(0, "x" * LARGE), row(1)])
    last = Table([row(0, "x" * LARGE), row(1, "second"), row(2)])
    link.send(first)  # does not fit into the socket
    link.send(Table([row(0, "x" * LARGE), row(1, "first")]))  # is replaced before it is sent
    link.send(last)

    assert [receive(), receive()] == [(first, 2), (last, 3)]
