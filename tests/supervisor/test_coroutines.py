# SPDX-License-Identifier: Apache-2.0
"""Coroutines that wait on the event loop of the supervisor."""

from time import monotonic

import pytest

from servekit.supervisor.os.coroutines import (
    Conditions,
    Future,
    close_coroutines,
    run_coroutine,
    sleep,
)
from servekit.supervisor.os.loop import Loop


def test_a_coroutine_continues_with_the_result():
    loop, seen = Loop(), []
    future = Future()

    async def work():
        seen.append(await future)
        loop.stop()

    run_coroutine(loop, work())
    loop.call_later(0, lambda: future.set("first"))
    loop.call_later(0, lambda: future.set("second"))
    loop.run()

    assert seen == ["first"]


def test_a_result_that_is_there_already_is_not_waited_for():
    future, seen = Future(), []
    future.set(1)

    async def work():
        seen.append(await future)

    run_coroutine(Loop(), work())
    assert seen == [1]


def test_those_continue_for_whom_it_holds():
    loop, conditions, facts, seen = Loop(), Conditions(), set(), []

    async def wait_for(fact):
        await conditions.until(lambda: fact in facts)
        seen.append(fact)

    def become(fact):
        facts.add(fact)
        conditions.check()

    for fact in ("a", "b"):
        run_coroutine(loop, wait_for(fact))
    loop.call_later(0, lambda: become("b"))
    loop.call_later(0.01, loop.stop)
    loop.run()

    assert seen == ["b"]


def test_sleep_lets_others_run(monkeypatch):
    loop, seen, now = Loop(), [], monotonic()

    async def work(name, duration_s):
        await sleep(loop, duration_s)
        seen.append(name)
        if len(seen) == 2:
            loop.stop()

    with monkeypatch.context() as still:
        still.setattr("servekit.supervisor.os.loop.monotonic", lambda: now)
        run_coroutine(loop, work("long", 0.02))
        run_coroutine(loop, work("short", 0.01))
    loop.run()

    assert seen == ["short", "long"]


def test_an_error_after_a_wait_reaches_the_loop():
    loop = Loop()

    async def work():
        await sleep(loop, 0)
        raise ValueError("a bug")

    run_coroutine(loop, work())
    with pytest.raises(ValueError, match="a bug"):
        loop.run()


def test_those_that_wait_are_closed_the_others_are_not_touched():
    loop, other, seen = Loop(), Loop(), []

    async def work(name, where):
        try:
            await sleep(where, 1000)
        finally:
            seen.append(name)

    async def end():
        seen.append("ended")

    run_coroutine(loop, work("one", loop))
    run_coroutine(loop, work("two", loop))
    run_coroutine(loop, end())
    run_coroutine(other, work("elsewhere", other))
    close_coroutines(loop)

    assert sorted(seen) == ["ended", "one", "two"]
