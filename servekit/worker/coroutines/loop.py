# SPDX-License-Identifier: Apache-2.0
"""The event loop of a worker. Everything that an async service does runs in it."""

import asyncio
import inspect
from collections.abc import Callable, Collection
from typing import Any, Final

__all__ = ["WorkerLoop", "called", "is_being_cancelled", "settled"]

CLEAN_UP_S: Final = 5.0  #: how long cancelled tasks may take to end when the worker leaves


class WorkerLoop:
    """Made when it is first used. It only runs while the worker calls the service, or serves."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop itself."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        return self._loop

    def call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        """Return what *method* returns; the result of a coroutine is awaited. Blocks.

        The loop runs meanwhile, so that plain methods can start tasks too.
        """
        return self.loop.run_until_complete(called(method, *arguments))

    def close(self) -> None:
        """Cancel what still runs, and close the loop."""
        if self._loop is None:
            return
        self.end(asyncio.all_tasks(self._loop))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()
        self._loop = None

    def end(self, tasks: Collection[asyncio.Task[Any]]) -> None:
        """Cancel *tasks*, and wait until they have ended, but not for long."""
        for task in tasks:
            task.cancel()
        if tasks:
            self.loop.run_until_complete(asyncio.wait(tasks, timeout=CLEAN_UP_S))


async def called(method: Callable[..., Any], *arguments: Any) -> Any:
    """Return what *method* returns, or what it returns once it is awaited."""
    return await settled(method(*arguments))


async def settled(result: Any) -> Any:
    """Return *result*, or the result of the coroutine that it is."""
    return await result if inspect.isawaitable(result) else result


def is_being_cancelled(error: BaseException) -> bool:
    """Whether *error* was raised because the running task was cancelled by its owner."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0
