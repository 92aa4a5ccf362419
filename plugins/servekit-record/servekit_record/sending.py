# SPDX-License-Identifier: Apache-2.0
"""Sends recorded requests to a server, and reads its responses."""

from __future__ import annotations

import re
from dataclasses import dataclass
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    HTTPSConnection,
    IncompleteRead,
)
from time import monotonic
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from servekit_record.errors import CannotReplay
from servekit_record.recording import message_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from servekit_record.recording import RecordedCall, RecordedMessage

__all__ = ["Address", "ReplayedResponse", "Sender"]

TIMEOUT_S: Final = 120.0
PIECE_BYTES: Final = 65_536
ENDLESS_BYTES: Final = 1 << 20  #: a stream that is so much longer than recorded is not read on
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
    server_s: float | None  #: what the server says in ``Server-Timing``; until a stream begins
    problem: str = ""  #: why there is no answer
    first_s: float = 0.0  #: from the first byte sent to the first one of the body, of a stream


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
        """Return the path and query for *call*, whose path is that of a model."""
        prefix, target = urlsplit(self.url).path.rstrip("/"), call.target
        if self.version and call.is_native:
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
        is_used = self._connection.sock is not None
        try:
            return self._send(call)
        except (OSError, HTTPException) as error:
            self._connection.close()
            if is_used and isinstance(error, ConnectionError):
                return self.send(call)
            return ReplayedResponse(0, message_of({}, b""), 0.0, None, _problem_of(error))

    def _send(self, call: RecordedCall) -> ReplayedResponse:
        began, address = monotonic(), self._address
        body = call.request.body or (None if call.method in ("GET", "HEAD") else b"")
        self._connection.request(
            call.method, address.target_of(call), body, address.headers_of(call)
        )
        response = self._connection.getresponse()
        first_s = 0.0
        if call.is_stream and response.status == call.status:
            content, first_s = self._read_stream(call, response, began)
        else:
            content = response.read()
        return ReplayedResponse(
            response.status,
            message_of({name.lower(): value for name, value in response.getheaders()}, content),
            elapsed_s=monotonic() - began,
            server_s=_server_s(response),
            first_s=first_s,
        )

    def _read_stream(
        self, call: RecordedCall, response: HTTPResponse, began: float
    ) -> tuple[bytes, float]:
        """Return the body of a streamed *response*, and how long its first byte took.

        The connection is closed where the rest of the body is not needed.
        """
        limit = len(call.response.body) + ENDLESS_BYTES if call.has_whole_body else 0
        content, first_s = bytearray(), 0.0
        while len(content) < limit and (piece := response.read1(PIECE_BYTES)):
            first_s = first_s or monotonic() - began
            content += piece
        if len(content) >= limit:
            response.close()
            self._connection.close()
        return bytes(content), first_s

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _problem_of(error: Exception) -> str:
    """Return what to tell about a call without an answer."""
    if isinstance(error, IncompleteRead):
        return "the answer broke off before its end"
    why = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return f"no answer: {why}"


def _server_s(response: HTTPResponse) -> float | None:
    timing = response.getheader("Server-Timing")
    return sum(map(float, DURATION.findall(timing))) / 1e3 if timing else None
