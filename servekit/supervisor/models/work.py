# SPDX-License-Identifier: Apache-2.0
"""Work on a model: one thing after another."""

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from servekit.supervisor.os.coroutines import Conditions, run_coroutine
from servekit.supervisor.os.loop import Loop

__all__ = ["ModelWork"]


class ModelWork:
    """Lets one piece of work be done to a model at a time; a reload waits until it is over."""

    def __init__(self, loop: Loop, load: Callable[[], object]) -> None:
        """Do nothing; *load* loads a model that was asked to load meanwhile."""
        self._loop = loop
        self._load = load
        self._conditions = Conditions()
        self.doing = ""  #: "reload", "swap" ...
        self.is_outdated = False  #: to be loaded again once nothing is done to it

    def begin(self, what: str, work: Coroutine[Any, Any, None]) -> None:
        """Do *work* up to its end."""

        async def do() -> None:
            with self.occupied(what):
                await work

        run_coroutine(self._loop, do())

    @contextmanager
    def occupied(self, what: str) -> Iterator[None]:
        """Note that it is busy with *what* during the ``with``."""
        self.doing = what
        try:
            yield
        finally:
            self.doing = ""
            if self.is_outdated:
                self.is_outdated = False
                self._load()
            self._conditions.check()

    async def until_idle(self) -> None:
        """Return once nothing is done, and nothing has begun before the caller continues."""
        while self.doing:
            await self._conditions.until(lambda: not self.doing)
