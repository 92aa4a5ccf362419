# SPDX-License-Identifier: Apache-2.0
"""One prediction whose client may leave: a connection to its task, a task to its connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gevent.event import Event

from servekit.frontend.exchange.response import problem_answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.errors import ServekitError
    from servekit.frontend.exchange.protocols import Asker
    from servekit.frontend.server.front_end import FrontEnd

    #: gets head and body of the answer, and what to call once nobody looks at the body
    Store = Callable[[bytes, bytes | memoryview, Callable[[], None] | None], None]

__all__ = ["Job", "problem_parts"]


def problem_parts(error: ServekitError, request_id: str, date: bytes) -> tuple[bytes, bytes]:
    """Return head and body of the answer that is *error*, the empty line between them left out."""
    head, _, body = problem_answer(error, request_id, date, closes=False).partition(b"\r\n\r\n")
    return head + b"\r\n", body


class Job:
    """Hands its answer to the client while that waits, and has it stored once it does not."""

    def __init__(self, connection: Asker) -> None:
        """Answer *connection*, until it ``part``s with us."""
        self.front_end: FrontEnd = connection.front_end  # type: ignore[assignment] # no door's
        self.task: Any = None  #: a ``Task``, or what stands in for one
        #: of a cache: gets head and body of the answer, and returns the head
        self.keep: Callable[[bytes, bytes | memoryview], bytes] | None = None
        self.is_closed = False  #: answered, or nobody wants the answer
        self.is_cancelled = False  #: its client sends no more, and perhaps still reads
        self.stored = Event()  #: the answer can be found, or there is no such job any more
        self._client: Asker | None = connection
        self._store: Store | None = None

    def part(self, store: Store) -> None:
        """Let the client go: *store* gets the answer."""
        self._client, self._store = None, store

    # ------------------------------------------------------------ what a connection asks

    @property
    def is_sent(self) -> bool:
        """A worker has it."""
        return bool(self.task is not None and self.task.is_sent)

    def cancel(self) -> None:
        """Tell the worker; what it answers still goes to a client that is there."""
        if not self.is_closed:
            self.is_closed = self._client is None or self._client.is_closed
            self.is_cancelled = True
            if self.task is not None:
                self.task.cancel()

    def drop(self) -> None:
        """Nobody wants the answer any more."""
        self._client = None
        self.cancel()

    # ------------------------------------------------------------ what a task asks

    def answer(
        self, head: bytes, body: bytes | memoryview, release: Callable[[], None] | None = None
    ) -> None:
        """Take the answer."""
        if self.is_closed:
            if release is not None:
                release()
            return
        self.is_closed = True
        if self.keep is not None:
            head = self.keep(head, body)
        if self._client is not None:
            self._client.answer(head, body, release)
        elif self._store is not None:
            self._store(head, body, release)

    def answer_problem(self, error: ServekitError, request_id: str) -> None:
        """Take why there is none."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._client is not None:
            self._client.answer_problem(error, request_id)
        elif self._store is not None:
            self._store(*problem_parts(error, request_id, self.front_end.heads.date), None)
