# SPDX-License-Identifier: Apache-2.0
"""The connection to a front-end: updates of the routing table, also for one that reads slowly."""

import socket

import pytest

from servekit.ipc.channel import FrameReader, encode_frame
from servekit.ipc.control import FrontEndReady, Hung, Reload, TableTaken
from servekit.ipc.table import ModelRow, Table, TableUpdate
from servekit.supervisor.os.channel import ControlChannel
from servekit.supervisor.os.coroutines import run_coroutine
from servekit.supervisor.os.loop import Loop
from servekit.supervisor.server import control
from servekit.supervisor.server.control import ControlSocket, FrontEndLink

LARGE = 1_000_000


def row(number, description=""):
    return ModelRow(f"m{number}", "1", description, [], 1, 0.0, 0.0, 1, number=number)


@pytest.fixture
def linked():
    """Return a link, and a function that returns the next table of its front-end."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(60)
    loop, link, rows, waiting = Loop(), FrontEndLink(), {}, []
    link.channel = ControlChannel(loop, ours, Hung, lambda _message: None, lambda: None)
    reader = FrameReader(theirs, TableUpdate)
    loop.call_later(60, lambda: pytest.fail("no table came in a minute"))
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


class FrontEnd:
    """The other end of a control socket."""

    def __init__(self, path):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(10)
        self._socket.connect(str(path))
        self._reader = FrameReader(self._socket, TableUpdate)

    def say(self, message):
        self._socket.sendall(encode_frame(message))

    def asked(self):
        """Return the number that the next table which asks for it wants to be confirmed."""
        while True:
            for update in self._reader.read():
                if update.confirm:
                    return update.confirm

    def told(self, front_ends):
        """Wait for a table that says that so many front-ends are connected."""
        while all(update.table.front_ends != front_ends for update in self._reader.read()):
            pass

    def close(self):
        self._socket.close()


class Spreading:
    """A control socket with two front-ends that are ready, and a change that spreads."""

    def __init__(self, path):
        self._loop, self._ready, self.reported, self.seen = Loop(), [], [], []
        self._server = ControlSocket(
            self._loop, path, lambda: Table([row(0)]), self._ready.append, self.reported.append
        )
        self.front_ends = FrontEnd(path), FrontEnd(path)
        for number, end in enumerate(self.front_ends, 1):
            end.say(FrontEndReady(number))
        self.until(lambda: 2 in self._ready)
        run_coroutine(self._loop, self._spread())
        self.until(lambda: True)

    async def _spread(self):
        await self._server.spread()
        self.seen.append("spread")

    def close(self):
        """Let the front-ends exit."""
        for end in self.front_ends:
            end.close()
        self.until(lambda: self._ready[-1] == 0)
        self._server._listener.close()

    def until(self, holds):
        """Run until *holds*, for ten seconds at most."""
        late = self._loop.call_later(10, lambda: pytest.fail("not within ten seconds"))

        def look():
            self._loop.call_later(0.001, self._loop.stop if holds() else look)

        look()
        self._loop.run()
        late.cancel()


@pytest.fixture
def spreading(run_dir):
    """Begin to spread a change."""
    spreading = Spreading(run_dir / "control.sock")
    yield spreading
    spreading.close()


def test_a_change_has_spread_when_every_front_end_answers_by_it(spreading):
    first, second = spreading.front_ends
    first.say(TableTaken(first.asked()))
    first.say(Reload())  # is handled after it
    spreading.until(lambda: spreading.reported)
    early = list(spreading.seen)
    second.say(TableTaken(second.asked()))
    spreading.until(lambda: spreading.seen)

    assert early == []


def test_a_front_end_that_has_exited_is_not_waited_for(spreading):
    first, second = spreading.front_ends
    first.say(TableTaken(first.asked()))
    second.close()

    spreading.until(lambda: spreading.seen)


def test_front_ends_are_told_how_many_they_are(spreading):
    first, second = spreading.front_ends
    first.told(2)
    second.close()
    spreading.until(lambda: spreading._ready[-1] == 1)

    first.told(1)


def test_a_front_end_that_hangs_is_not_waited_for_for_ever(run_dir, monkeypatch):
    monkeypatch.setattr(control, "TAKEN_S", 0.05)
    spreading = Spreading(run_dir / "control.sock")

    spreading.until(lambda: spreading.seen)
    spreading.close()
