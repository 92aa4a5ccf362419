# SPDX-License-Identifier: Apache-2.0
"""Coroutines on the event loop, for work that waits several times: one function says it all."""

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from servekit.supervisor.os.loop import Loop

__all__ = ["Conditions", "Future", "close_coroutines", "run_coroutine", "sleep"]

Result = TypeVar("Result")
Work = Coroutine["Future[Any]", None, None]

_begun: WeakKeyDictionary[Loop, WeakSet[Work]] = WeakKeyDictionary()


class Future(Generic[Result]):
    """A result that comes later, awaited by one coroutine."""

    def __init__(self) -> None:
        """Wait for a result."""
        self._results: list[Result] = []
        self.resume: Callable[[], object] = lambda: None

    def set(self, result: Result) -> None:
        """Set the result, and let the coroutine continue. Only the first result counts."""
        if not self._results:
            self._results.append(result)
            self.resume()

    def __await__(self) -> Generator["Future[Result]", None, Result]:
        """Wait for the result and return it."""
        if not self._results:
            yield self
        return self._results[0]


class Conditions:
    """Lets coroutines wait until something holds; ``check`` is called when it may."""

    def __init__(self) -> None:
        """Let nobody wait yet."""
        self._waiting: list[tuple[Callable[[], object], Future[None]]] = []

    async def until(self, holds: Callable[[], object]) -> None:
        """Return once *holds* returns a true value."""
        if not holds():
            future: Future[None] = Future()
            self._waiting.append((holds, future))
            await future

    def check(self) -> None:
        """Let those continue for whom it holds now."""
        for entry in [each for each in self._waiting if each[0]()]:
            self._waiting.remove(entry)
            entry[1].set(None)


def run_coroutine(loop: Loop, coroutine: Work) -> None:
    """Run *coroutine* up to where it waits; it continues at the end of the loop's turns."""

    def step() -> None:
        try:
            future = coroutine.send(None)
        except StopIteration:
            return
        future.resume = lambda: loop.defer(step)

    _begun.setdefault(loop, WeakSet()).add(coroutine)
    step()


def close_coroutines(loop: Loop) -> None:
    """Close those that wait on *loop*, which does not run any more.

    Python would do it as the interpreter ends, and what they do at their end may need a thread:
    none can be started then.
    """
    while begun := _begun.get(loop):
        begun.pop().close()


async def sleep(loop: Loop, duration_s: float) -> None:
    """Return after *duration_s*."""
    future: Future[None] = Future()
    loop.call_later(duration_s, lambda: future.set(None))
    await future
