# SPDX-License-Identifier: Apache-2.0
"""A framed connection that never blocks the loop."""

import socket

import pytest

from servekit.ipc.channel import FrameReader, encode_frame
from servekit.ipc.control import Hung
from servekit.ipc.table import ModelRow, Table, TableUpdate
from servekit.supervisor.os.channel import ControlChannel
from servekit.supervisor.os.loop import Loop

LARGE = TableUpdate(Table([ModelRow("m", "1", "x" * 1_000_000, [], 1, 0.0, 0.0, 1)]), [0])
NOTHING = TableUpdate(Table([]), [])


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    theirs.settimeout(60)
    yield ours, theirs
    ours.close()
    theirs.close()


def make(ours):
    loop, messages = Loop(), []
    link = ControlChannel(loop, ours, Hung, lambda m: (messages.append(m), loop.stop()), loop.stop)
    loop.call_later(60, lambda: pytest.fail("nothing came in a minute"))
    return loop, link, messages


def read_all(sock, kind):
    reader, found = FrameReader(sock, kind), []
    while True:
        try:
            found += reader.read()
        except ConnectionError:
            return found


def test_message_comes_in(pair):
    loop, _link, messages = make(pair[0])
    pair[1].sendall(encode_frame(Hung("m", 0, 1, "slow")))
    loop.run()

    assert messages == [Hung("m", 0, 1, "slow")]


def test_peer_that_does_not_read_delays_nobody_and_gets_all_later(pair):
    loop, link, _ = make(pair[0])
    for _ in range(3):
        link.send(LARGE)
    loop.call_later(0, lambda: None)
    sizes = drain(loop, link, pair[1], count=3)

    assert sizes == [1_000_000] * 3


def test_only_the_newest_of_the_waiting_tables_is_sent(pair):
    loop, link, _ = make(pair[0])
    link.send(LARGE)  # begun, so it must be finished
    link.send(NOTHING, replaces=True)
    link.send(TableUpdate(Table([], is_draining=True), []), replaces=True)
    reader = FrameReader(pair[1], TableUpdate)
    tables = []
    loop.watch(pair[1].fileno(), lambda _e: (tables.extend(reader.read()), loop.stop()))
    while len(tables) < 2:
        loop.run()

    assert [each.table.is_draining for each in tables] == [False, True]


def drain(loop, link, peer, count):
    reader, tables = FrameReader(peer, TableUpdate), []
    loop.watch(peer.fileno(), lambda _e: (tables.extend(reader.read()), loop.stop()))
    while len(tables) < count:
        loop.run()
    return [len(each.table.models[0].description) for each in tables]


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda peer: peer.close(), id="the peer is gone"),
        pytest.param(lambda peer: peer.sendall(b"\xff\xff\xff\xff"), id="a frame too large"),
        pytest.param(lambda peer: peer.sendall(b"\x01\0\0\0\xc1"), id="no message at all"),
    ],
)
def test_end_is_told_once_and_sending_on_is_harmless(pair, end):
    loop, link, messages = make(pair[0])
    end(pair[1])
    loop.run()
    link.send(NOTHING)
    link.close()

    assert messages == []
