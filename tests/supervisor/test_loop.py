# SPDX-License-Identifier: Apache-2.0
"""The event loop: order, cancelling, and callbacks that fail."""

import socket
from time import monotonic

import pytest

from servekit.supervisor.os.loop import READ, WRITE, Loop


@pytest.fixture
def loop():
    made = Loop()
    made.call_later(60, lambda: pytest.fail("the loop ran for a minute"))
    return made


def test_timers_run_in_the_order_of_their_moments(loop, monkeypatch):
    seen, now = [], monotonic()
    with monkeypatch.context() as still:
        still.setattr("servekit.supervisor.os.loop.monotonic", lambda: now)
        loop.call_later(0.02, loop.stop)
        for delay, name in ((0.01, "second"), (0.0, "first")):
            loop.call_later(delay, lambda name=name: seen.append(name))
    loop.run()

    assert seen == ["first", "second"]


def test_cancelled_timer_never_runs(loop):
    timer = loop.call_later(0.0, lambda: pytest.fail("it was cancelled"))
    timer.cancel()
    timer.cancel()
    loop.call_later(0.01, loop.stop)

    loop.run()


def test_deferred_call_runs_once_at_the_end_of_the_turn(loop):
    seen = []
    publish = lambda: seen.append("deferred")  # noqa: E731 - one object, asked for twice
    loop.call_later(0, lambda: (loop.defer(publish), loop.defer(publish), seen.append("turn")))
    loop.call_later(0.01, loop.stop)
    loop.run()

    assert seen == ["turn", "deferred"]


def test_descriptor_closed_by_an_earlier_callback_is_not_called(loop):
    pairs = [socket.socketpair() for _ in range(2)]
    seen = []

    def close_the_other(mine, other):
        seen.append(mine)
        for pair in pairs:
            loop.unwatch(pair[0].fileno())
        loop.stop()

    for index, (ours, theirs) in enumerate(pairs):
        theirs.send(b"x")
        loop.watch(ours.fileno(), lambda _e, i=index: close_the_other(i, 1 - i))
    loop.run()

    assert len(seen) == 1
    for sock in (*pairs[0], *pairs[1]):
        sock.close()


def test_watch_again_changes_the_events(loop):
    ours, theirs = socket.socketpair()
    seen = []
    loop.watch(ours.fileno(), seen.append, READ)
    loop.watch(ours.fileno(), lambda events: (seen.append(events), loop.stop()), READ | WRITE)
    loop.run()

    assert seen == [WRITE]
    ours.close()
    theirs.close()


def test_failing_callback_is_reported_and_the_loop_goes_on():
    errors = []
    loop = Loop(errors.append)
    loop.call_later(0, lambda: 1 / 0)
    loop.call_later(0.01, loop.stop)
    loop.run()

    assert [type(error) for error in errors] == [ZeroDivisionError]


def test_failing_callback_ends_a_loop_that_nobody_reports_to(loop):
    loop.call_later(0, lambda: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        loop.run()
