# SPDX-License-Identifier: Apache-2.0
"""Predictions whose answers are fetched later: ``Client.submit`` and ``AsyncClient.submit``."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic
from typing import Any, Final

from servekit_client.answers import Answer, member
from servekit_client.calls import Call, CallBuilder
from servekit_client.errors import DeadlineExceeded, NotFound

__all__ = ["AsyncJob", "Job"]

WAIT_S: Final = 20.0  #: longest wait of one request for the state of a job
ANSWER_S: Final = 30.0  #: for the answer, besides the wait
LATE_S: Final = 5.0  #: after its time, for the answer of a server that is slow or hangs
PAUSE_S: Final = 0.1  #: between two requests, if the server does not wait


class _Job:
    """The state of a job, for both kinds of clients."""

    def __init__(self, server: CallBuilder, answer: Answer) -> None:
        """Take the *answer* to what was submitted: a server without jobs gives the real one."""
        self._server = server
        is_job = "Location" in answer.headers
        self._answer = None if is_job else answer
        self._is_over = not is_job
        self.id = str(member(answer, "id")) if is_job else ""  #: "" if it was answered at once

    def _look(self, until: float) -> tuple[Call, float]:
        """Return the call that asks how it stands, and how long that may take."""
        left_s = max(0.0, until - monotonic())
        wait_s = min(WAIT_S, left_s)
        limit_s = min(wait_s + ANSWER_S, left_s + LATE_S)
        return self._server.job(self.id, wait_s=math.ceil(wait_s)), limit_s

    def _is_late(self, answer: Answer, until: float) -> bool:
        """Note how it stands; return whether there is no time to look again."""
        self._is_over = member(answer, "status") != "pending"
        return not self._is_over and monotonic() >= until

    def _too_late(self) -> DeadlineExceeded:
        return DeadlineExceeded(detail=f"job {self.id} is still running")


class Job(_Job):
    """A running prediction; any thread may use it."""

    def __init__(self, ask: Callable[..., Answer], server: CallBuilder, answer: Answer) -> None:
        """Store; ``Client.submit`` makes jobs."""
        super().__init__(server, answer)
        self._ask = ask

    def wait(self, timeout_s: float = math.inf) -> bool:
        """Wait until it has ended or failed, at most *timeout_s*; return whether it has.

        A server that does not answer is waited for 5 s longer.
        """
        until = monotonic() + timeout_s
        while not self._is_over:
            try:
                answer = self._ask(*self._look(until))
            except DeadlineExceeded:
                if monotonic() < until:
                    raise
                return False
            if self._is_late(answer, until):
                return False
            if not self._is_over:
                time.sleep(PAUSE_S)
        return True

    def result(self, timeout_s: float = math.inf, *, envelope: bool = True) -> Any:
        """Return the output, once there is one; it is fetched once.

        :param envelope: as in ``predict``.
        :raises DeadlineExceeded: not within *timeout_s*; it can be asked for again.
        :raises ServekitError: what ``predict`` would have raised.
        """
        if not self.wait(timeout_s):
            raise self._too_late()
        if self._answer is None:
            self._answer = self._ask(self._server.job(self.id, "result"), retries=0)
        return self._answer.output if envelope else self._answer.value

    def cancel(self) -> None:
        """Cancel the job, and drop its answer."""
        with suppress(NotFound):
            self._ask(self._server.job(self.id, method="DELETE"))


class AsyncJob(_Job):
    """A running prediction; any task may use it."""

    def __init__(
        self, ask: Callable[..., Awaitable[Answer]], server: CallBuilder, answer: Answer
    ) -> None:
        """Store; ``AsyncClient.submit`` makes jobs."""
        super().__init__(server, answer)
        self._ask = ask

    async def wait(self, timeout_s: float = math.inf) -> bool:
        """Wait until it has ended or failed, at most *timeout_s*; return whether it has.

        A server that does not answer is waited for 5 s longer.
        """
        until = monotonic() + timeout_s
        while not self._is_over:
            try:
                answer = await self._ask(*self._look(until))
            except DeadlineExceeded:
                if monotonic() < until:
                    raise
                return False
            if self._is_late(answer, until):
                return False
            if not self._is_over:
                await asyncio.sleep(PAUSE_S)
        return True

    async def result(self, timeout_s: float = math.inf, *, envelope: bool = True) -> Any:
        """Return the output, once there is one; it is fetched once.

        :param envelope: as in ``predict``.
        :raises DeadlineExceeded: not within *timeout_s*; it can be asked for again.
        :raises ServekitError: what ``predict`` would have raised.
        """
        if not await self.wait(timeout_s):
            raise self._too_late()
        if self._answer is None:
            self._answer = await self._ask(self._server.job(self.id, "result"), retries=0)
        return self._answer.output if envelope else self._answer.value

    async def cancel(self) -> None:
        """Cancel the job, and drop its answer."""
        with suppress(NotFound):
            await self._ask(self._server.job(self.id, method="DELETE"))
