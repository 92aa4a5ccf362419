# SPDX-License-Identifier: Apache-2.0
"""Work that clients heap up is done for a moment at a time, in the order in which it came."""

import pytest

from servekit.frontend.exchange import time_slices as slices
from servekit.frontend.exchange.time_slices import SLICE_S, TimeSlices


class Timer:
    """Is due when the test says so."""

    callback = None

    def start(self, callback):
        assert self.callback is None
        self.callback = callback

    def stop(self):
        self.callback = None


class Loop:
    """Has one timer, and a clock that stands still unless somebody works."""

    def __init__(self):
        self.now, self.one = 0.0, Timer()

    def timer(self, after_s):
        assert after_s == 0
        return self.one

    def turn(self):
        """Go round once."""
        if self.one.callback is not None:
            self.one.callback()


@pytest.fixture
def loop(monkeypatch):
    loop = Loop()
    monkeypatch.setattr(slices, "monotonic", lambda: loop.now)
    return loop


def worker(loop, ours, name, steps, done):
    """Return work of *steps*, each a quarter of a slice."""
    left = [steps]

    def work():
        while left[0]:
            left[0] -= 1
            loop.now += SLICE_S / 4
            done.append(name)
            if ours.is_over:
                return bool(left[0])
        return False

    return work


def test_what_takes_long_leaves_the_loop_its_turns(loop):
    ours, done, at = TimeSlices(loop), [], []
    ours.run(worker(loop, ours, "a", 10, done))
    for _ in range(4):
        at.append(len(done))
        loop.turn()

    assert at == [4, 8, 10, 10]


def test_all_together_have_one_slice_in_a_turn(loop):
    ours, done = TimeSlices(loop), []
    for name in "abc":
        ours.run(worker(loop, ours, name, 6, done))
    turns = 0
    while len(done) < 18:
        before, turns = len(done), turns + 1
        loop.turn()
        assert len(done) - before <= 5, "more than a slice in one turn"

    assert turns <= 6
    assert done[:4] == ["a"] * 4
    assert done.index("b") < 10, "the first goes on before the second has begun"


def test_short_work_is_done_at_once_until_the_slice_is_used_up(loop):
    ours, done = TimeSlices(loop), []
    for name in "abcdef":
        ours.run(worker(loop, ours, name, 1, done))
    assert done == list("abcd")
    loop.turn()

    assert done == list("abcdef")


def test_work_that_is_done_later_counts_now(loop):
    ours, done = TimeSlices(loop), []
    ours.charge(SLICE_S)
    ours.run(worker(loop, ours, "a", 1, done))
    assert done == []
    loop.turn()

    assert done == ["a"]


def test_what_is_put_off_is_done_in_the_next_turn_though_there_is_time(loop):
    ours, done = TimeSlices(loop), []
    ours.defer(worker(loop, ours, "a", 1, done))
    ours.run(worker(loop, ours, "b", 1, done))  # not before what came first
    assert done == []
    loop.turn()

    assert done == ["a", "b"]
