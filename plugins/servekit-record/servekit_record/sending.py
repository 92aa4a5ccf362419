# SPDX-License-Identifier: Apache-2.0
"""Sends recorded requests to a server, one after the other or over several connections."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from time import monotonic, sleep
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import urlsplit

from servekit_record.errors import CannotReplay
from servekit_record.recording import message_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from servekit_record.recording import RecordedCall, RecordedMessage

__all__ = ["Address", "ReplayedResponse", "Sender", "send_all"]

#: gets a call, its number in the recording (from 1), and its answer
Take: TypeAlias = "Callable[[int, RecordedCall, ReplayedResponse], None]"

TIMEOUT_S: Final = 120.0
DURATION: Final = re.compile(r"dur=([0-9.]+)")
#: header fields of the recorded connection, which are not sent again
OF_CONNECTION: Final = frozenset(
    ("connection", "content-length", "expect", "host", "keep-alive", "te", "transfer-encoding")
)


@dataclass(frozen=True, slots=True)
class ReplayedResponse:
    """The response of a server to a call."""

    status: int  #: 0 if there is no answer
    message: RecordedMessage
    elapsed_s: float  #: from the first byte sent to the last one received
    server_s: float | None  #: what the server says in ``Server-Timing``
    problem: str = ""  #: why there is no answer


@dataclass(frozen=True, slots=True)
class Address:
    """Where requests are sent, and what is added to them."""

    url: str  #: ``http://127.0.0.1:8080``, with or without a path before all others
    version: str = ""  #: send to this version of each model; "" leaves paths unchanged
    headers: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        """Check the URL.

        :raises CannotReplay: it is not one of HTTP.
        """
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise CannotReplay(f"{self.url!r} is not http://HOST:PORT or https://HOST:PORT")

    def connect(self) -> HTTPConnection:
        """Return a connection, which is opened with its first request."""
        parts = urlsplit(self.url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        return kind(parts.netloc.rpartition("@")[2], timeout=TIMEOUT_S)

    def check(self) -> None:
        """Connect once.

        :raises CannotReplay: no server answers there.
        """
        connection = self.connect()
        try:
            connection.connect()
        except OSError as error:
            raise CannotReplay(f"{self.url}: {error.strerror or error}") from error
        finally:
            connection.close()

    def target_of(self, call: RecordedCall) -> str:
        """Return the path and query for *call*."""
        prefix, target = urlsplit(self.url).path.rstrip("/"), call.target
        if self.version and call.model:
            start = f"/{call.model}/"
            rest = target.removeprefix(start) if target.startswith(start) else target.lstrip("/")
            rest = re.sub(r"^versions/[^/]+/", "", rest)
            target = f"{start}versions/{self.version}/{rest}"
        return prefix + target

    def headers_of(self, call: RecordedCall) -> dict[str, str]:
        """Return the header fields for *call*."""
        kept = {k: v for k, v in call.request.headers.items() if k not in OF_CONNECTION}
        kept.pop("x-request-timeout-ms", None)  # it was for the machine that was recorded
        ours = {"accept-encoding": "identity", "x-request-id": call.request_id}
        return {**kept, **ours, **(self.headers or {})}


class Sender:
    """Sends calls over one connection."""

    def __init__(self, address: Address) -> None:
        """Connect to *address* when there is something to send."""
        self._address = address
        self._connection = address.connect()

    def send(self, call: RecordedCall) -> ReplayedResponse:
        """Return what the server answers; a connection that it has closed is opened again."""
        try:
            return self._send(call)
        except (OSError, HTTPException):
            self._connection.close()
        try:
            return self._send(call)
        except (OSError, HTTPException) as error:
            self._connection.close()
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            return ReplayedResponse(0, message_of({}, b""), 0.0, None, f"no answer: {why}")

    def _send(self, call: RecordedCall) -> ReplayedResponse:
        began, address = monotonic(), self._address
        body = call.request.body or (None if call.method in ("GET", "HEAD") else b"")
        self._connection.request(
            call.method, address.target_of(call), body, address.headers_of(call)
        )
        response = self._connection.getresponse()
        content = response.read()
        elapsed_s = monotonic() - began
        headers = {name.lower(): value for name, value in response.getheaders()}
        return ReplayedResponse(
            response.status, message_of(headers, content), elapsed_s, _server_s(response)
        )

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _server_s(response: HTTPResponse) -> float | None:
    timing = response.getheader("Server-Timing")
    return sum(map(float, DURATION.findall(timing))) / 1e3 if timing else None


class CallFeed:
    """Hands out calls to several threads, in their order."""

    def __init__(self, calls: Iterable[RecordedCall], *, keeps_pace: bool) -> None:
        """Hand out *calls*.

        :param keeps_pace: leave as much time between them as there was when they were recorded.
        """
        self._calls = enumerate(calls, 1)
        self._keeps_pace = keeps_pace
        self._lock = threading.Lock()
        self._began = monotonic()
        self._first_s: float | None = None  #: when the first call was recorded
        self.failure: BaseException | None = None  #: ends all threads

    def next(self) -> tuple[int, RecordedCall] | None:
        """Return a call when it is due, and its number; ``None`` if there are no more."""
        with self._lock:
            found = next(self._calls, None) if self.failure is None else None
        if found is not None and self._keeps_pace:
            self._first_s = found[1].time_s if self._first_s is None else self._first_s
            sleep(max(0.0, found[1].time_s - self._first_s - (monotonic() - self._began)))
        return found

    def take(self, number: int, call: RecordedCall, answer: ReplayedResponse, take: Take) -> None:
        """RecordedCall *take*, in one thread at a time."""
        with self._lock:
            take(number, call, answer)


def send_all(
    calls: Iterable[RecordedCall],
    address: Address,
    take: Take,
    *,
    connections: int = 1,
    keeps_pace: bool = False,
) -> None:
    """Send *calls* in their order, and give *take* each with its number and answer.

    :param take: called in one thread at a time.
    """
    feed = CallFeed(calls, keeps_pace=keeps_pace)
    threads = [
        threading.Thread(target=_send_some, args=(feed, address, take), daemon=True)
        for _ in range(connections)
    ]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException as error:  # Ctrl-C: what has been answered counts
        feed.failure = error
        raise
    if feed.failure is not None:
        raise feed.failure


def _send_some(feed: CallFeed, address: Address, take: Take) -> None:
    """Send calls over one connection. Runs in a thread."""
    sender = Sender(address)
    try:
        while (found := feed.next()) is not None:
            feed.take(*found, sender.send(found[1]), take)
    except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
        feed.failure = error
    finally:
        sender.close()
