# SPDX-License-Identifier: Apache-2.0
"""The servers of a client: which one gets the next call, and which ones do not answer."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from random import random
from threading import Lock, Thread
from time import monotonic
from typing import Final, Self

from servekit_client.discovery import Discovery
from servekit_client.errors import (
    ConnectionRefused,
    DeadlineExceeded,
    ServekitError,
    Unavailable,
    Unreachable,
)

__all__ = ["Lease", "Servers"]

FAILURES: Final = 3  #: one after the other until a server gets no more calls
FIRST_REST_S: Final = 1.0
LONGEST_REST_S: Final = 30.0
SOON_S: Final = 1.0  #: between two looks for servers, if one that was found is gone


@dataclass(slots=True, eq=False)
class _Server:
    """One server, as far as this client knows it."""

    url: str
    calls: int = 0  #: waiting for it to answer
    failures: int = 0  #: since it has answered last
    rests: int = 0  #: one after the other
    rests_until: float = 0.0  #: ``monotonic``: it gets no calls before
    is_tried: bool = False  #: one call finds out whether it answers again

    def note(self, error: ServekitError | None) -> None:
        """Take notice of how a call has ended."""
        self.is_tried = False
        if not _is_of_server(error):
            self.failures = self.rests = 0
            return
        self.failures += FAILURES if isinstance(error, ConnectionRefused) else 1
        if self.failures >= FAILURES:
            rest_s = min(FIRST_REST_S * 2**self.rests, LONGEST_REST_S)
            self.rests_until = monotonic() + rest_s
            self.rests, self.failures = self.rests + 1, FAILURES - 1


def _is_of_server(error: ServekitError | None) -> bool:
    """Return whether *error* says that the server is in trouble, rather than the request."""
    if isinstance(error, DeadlineExceeded):
        return error.status is None  # not even a 504 came
    return isinstance(error, Unreachable | Unavailable)


@dataclass(slots=True, eq=False)
class Lease:
    """One call is at a server. Must be ended."""

    server: _Server
    lock: Lock
    look_soon: Callable[[], None]  #: a server that was found is not there
    _has_ended: bool = field(default=False)

    @property
    def url(self) -> str:
        """The URL of the server, without a slash at its end."""
        return self.server.url

    def __enter__(self) -> Self:
        """End it at the end of a ``with``, with the error that is raised there."""
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        self.end(error if isinstance(error, ServekitError) else None)

    def end(self, error: ServekitError | None = None) -> None:
        """Note how the call has ended; a second time does nothing."""
        with self.lock:
            if self._leave():
                self.server.note(error)
                if isinstance(error, ConnectionRefused):
                    self.look_soon()

    def abandon(self) -> None:
        """End it before the server has answered, which says nothing about the server."""
        with self.lock:
            if self._leave():
                self.server.is_tried = False

    def _leave(self) -> bool:
        """Return whether the call was at the server until now."""
        was_there, self._has_ended = not self._has_ended, True
        self.server.calls -= was_there
        return was_there


class Servers:
    """Chooses the server with the fewest calls. Any thread may use it."""

    def __init__(self, given: str | Iterable[str] | Discovery) -> None:
        """Use the servers *given*: a URL, several, or what finds them.

        :raises ValueError: a URL is not one of HTTP, or the list is empty.
        """
        self._lock = Lock()
        self._servers: dict[str, _Server] = {}
        self._discovery = given if isinstance(given, Discovery) else None
        self._look_at = 0.0  #: ``monotonic``: when to look for servers again
        self._looked_at = 0.0  #: ``monotonic``: when that was done last
        self._is_looking = False
        self._first_look = Lock()  #: calls wait for it
        if not isinstance(given, Discovery):
            urls = [given] if isinstance(given, str) else list(given)
            if not urls:
                raise ValueError("url: the list is empty")
            self._replace(urls)

    @property
    def is_ready(self) -> bool:
        """Whether ``lease`` need not look for servers before it returns."""
        return bool(self._servers)

    @property
    def urls(self) -> list[str]:
        """The servers as they are known now."""
        return [*self._servers]

    def lease(self, avoided: Collection[str] = (), only: str = "") -> Lease:
        """Return a server for one call.

        :param avoided: URLs of servers that are taken only if there are no others.
        :param only: the URL of the one server that may be taken.
        :raises Unreachable: no server is known.
        """
        self._look()
        with self._lock:
            server = self._servers.get(only) if only else self._best(avoided)
            if server is None:
                raise Unreachable(detail=f"{only or 'the servers'}: not found")
            now = monotonic()
            server.is_tried = server.rests > 0 and server.rests_until <= now
            server.calls += 1
        return Lease(server, self._lock, self._look_soon)

    def has_other(self, tried: Collection[str]) -> bool:
        """Whether a server that answers has not been *tried*."""
        now = monotonic()
        return any(
            url not in tried and server.rests_until <= now for url, server in self._servers.items()
        )

    def _best(self, avoided: Collection[str]) -> _Server | None:
        now = monotonic()

        def order(server: _Server) -> tuple[bool, bool, float, int, float]:
            rest_s = max(0.0, server.rests_until - now)
            busy = rest_s > 0 or server.is_tried
            return busy, server.url in avoided, rest_s, server.calls, random()  # noqa: S311

        return min(self._servers.values(), key=order, default=None)

    # ------------------------------------------------------------ discovery

    def _look(self) -> None:
        """Look for servers if it is time to: while none is known now, later in the background."""
        discovery = self._discovery
        if discovery is None:
            return
        if not self._servers:
            with self._first_look:
                if not self._servers:
                    self._find(discovery)
            return
        with self._lock:
            if self._is_looking or monotonic() < self._look_at:
                return
            self._is_looking = True
        Thread(target=self._find, args=(discovery,), daemon=True).start()

    def _look_soon(self) -> None:
        self._look_at = min(self._look_at, self._looked_at + SOON_S)

    def _find(self, discovery: Discovery) -> None:
        try:
            found = list(discovery.urls())
            if found:
                self._replace(found)
        except OSError:
            pass  # those that are known stay
        finally:
            self._looked_at = monotonic()
            self._look_at = self._looked_at + discovery.every_s
            self._is_looking = False

    def _replace(self, urls: Iterable[str]) -> None:
        known = {_checked(url): None for url in urls}
        with self._lock:
            self._servers = {url: self._servers.get(url) or _Server(url) for url in known}


def _checked(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"url: {url!r} begins with neither http:// nor https://")
    return url.rstrip("/")
