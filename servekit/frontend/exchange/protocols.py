# SPDX-License-Identifier: Apache-2.0
"""What a client's end of a request has to be, whichever HTTP it speaks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.errors import ServekitError
    from servekit.frontend.server.front_end import FrontEnd
    from servekit.frontend.server.management import Door

__all__ = ["Asker", "Awaited", "Watched"]


class Watched(Protocol):
    """Whoever counts as a connection, and has times to keep."""

    expires: float  #: ``monotonic``: when ``expire`` is called
    is_closed: bool

    def expire(self) -> None:
        """Do what is to be done about a client that let a timeout pass."""

    def close_if_idle(self, now: float) -> None:
        """End what is not needed any more: the front-end leaves."""


class Awaited(Protocol):
    """One prediction, made of a task or of many."""

    @property
    def is_sent(self) -> bool:
        """A worker has it."""

    def cancel(self) -> None:
        """Its client has gone."""


class Asker(Protocol):
    """Whoever waits for one answer: a connection of HTTP/1.1, or a stream of HTTP/2."""

    front_end: FrontEnd | Door
    peer: Any  #: the client's address, as ``accept`` returns it
    is_closed: bool  #: nobody waits any more
    task: Awaited | None  #: the prediction being answered
    #: of a cache: gets head and body of the answer, and returns the head
    keep: Callable[[bytes, bytes | memoryview], bytes] | None

    @property
    def is_encrypted(self) -> bool:
        """It is TLS."""

    @property
    def subject(self) -> str:
        """Of the client's certificate; "" without one."""

    def answer(
        self, head: bytes, body: bytes | memoryview, release: Callable[[], None] | None = None
    ) -> None:
        """Give one answer.

        :param head: the status line and header lines, ``Content-Length`` the last, without the
            empty line.
        :param release: called once *body* is out, or nobody will read it.
        """

    def answer_problem(self, error: ServekitError, request_id: str) -> None:
        """Answer with the problem details of *error*."""
