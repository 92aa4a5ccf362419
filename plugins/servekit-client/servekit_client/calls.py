# SPDX-License-Identifier: Apache-2.0
"""Requests and their errors, shared by the clients for threads and for asyncio."""

import errno
import gzip
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import quote

import httpx

from servekit_client.answers import EVENTS, JSON, MSGPACK
from servekit_client.arrays import pack
from servekit_client.attempts import LONGEST_S
from servekit_client.errors import ConnectionRefused, DeadlineExceeded, Unreachable

__all__ = ["Call", "CallBuilder", "transport_errors"]

AGENT: Final = "servekit-client"
COMPRESS_BYTES: Final = 1024  #: a smaller body gains nothing
CONNECT_S: Final = 4.0  #: until a server that does not answer its third SYN is given up
#: of a connection that was not made: nobody listens there, or the machine is gone
NOT_CONNECTED: Final = (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT)


@dataclass(frozen=True, slots=True)
class Call:
    """One request, however often it is tried."""

    method: str
    path: str  #: below the URL of the server
    headers: dict[str, str]
    body: bytes | None = None
    silence_s: float | None = None  #: longest pause of a stream, which has no deadline
    tells_deadline: bool = True  #: the server may give up when we do

    @property
    def request_id(self) -> str:
        """The id of the request in the server's log."""
        return self.headers["X-Request-Id"]

    def arguments(self, url: str, left_s: float) -> dict[str, Any]:
        """Return what ``build_request`` of httpx takes for a try of at most *left_s* at *url*."""
        headers = dict(self.headers)
        limit_s = min(self.silence_s or left_s, LONGEST_S)
        if self.silence_s is None and self.tells_deadline:
            headers["X-Request-Timeout-Ms"] = str(max(1, int(left_s * 1000)))
        return {
            "method": self.method,
            "url": url + self.path,
            "headers": headers,
            "content": self.body,
            "timeout": httpx.Timeout(limit_s, connect=min(limit_s, CONNECT_S)),
        }


class CallBuilder:
    """Makes the calls of one client."""

    def __init__(self, token: str | None, *, compress: bool) -> None:
        """Store; *token* goes along with every call."""
        self._compress = compress
        self._headers = {"User-Agent": AGENT}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"

    def predict(self, model: str, value: Any, request_id: str | None) -> Call:
        """Return the call of one prediction.

        Always msgpack: in JSON bytes, arrays and NaN would not stay what they are.
        """
        return self.raw(model, pack(value), MSGPACK, MSGPACK, request_id)

    def raw(
        self, model: str, body: bytes, content_type: str, accept: str, request_id: str | None
    ) -> Call:
        """Return the call of one prediction with an encoded body."""
        headers = self._with({"Content-Type": content_type, "Accept": accept}, request_id)
        if self._compress and len(body) >= COMPRESS_BYTES:
            body = gzip.compress(body, compresslevel=1, mtime=0)
            headers["Content-Encoding"] = "gzip"
        return Call("POST", self._where(model), headers, body)

    def stream(self, model: str, value: Any, request_id: str | None, silence_s: float) -> Call:
        """Return the call of one prediction in pieces."""
        call = self.raw(model, pack(value), MSGPACK, EVENTS, request_id)
        return replace(call, silence_s=silence_s)

    def instances(self, path: str, values: Iterable[Any], request_id: str | None) -> Call:
        """Return the call of a route that takes several inputs; what it answers is JSON."""
        return self.raw(path, pack({"instances": list(values)}), MSGPACK, JSON, request_id)

    def submit(self, model: str, value: Any, request_id: str | None) -> Call:
        """Return the call of one prediction whose answer is fetched later."""
        call = self.predict(model, value, request_id)
        headers = {**call.headers, "Prefer": "respond-async"}
        return replace(call, headers=headers, tells_deadline=False)

    def job(self, name: str, part: str = "", *, method: str = "GET", wait_s: int = 0) -> Call:
        """Return the call that asks after a job, for its result, or to have it forgotten."""
        headers = {"Prefer": f"wait={wait_s}"} if wait_s else {}
        return Call(method, self._at("jobs", name, part), self._with(headers, None))

    def get(self, *steps: str) -> Call:
        """Return the call of a document; a step that is empty is left out."""
        return Call("GET", self._at(*steps), self._with({"Accept": JSON}, None))

    def _where(self, model: str) -> str:
        """Return the path of the model of this name, or of this path, which begins with a slash."""
        if model.startswith("/"):
            return quote(model)
        return self._at(model, "predict")

    def _at(self, *steps: str) -> str:
        return f"/{'/'.join(quote(step, safe='') for step in steps if step)}"

    def _with(self, headers: dict[str, str], request_id: str | None) -> dict[str, str]:
        return {**self._headers, **headers, "X-Request-Id": request_id or uuid.uuid4().hex}


@contextmanager
def transport_errors(call: Call, url: str) -> Iterator[None]:
    """Raise errors between here and the server at *url* as errors of this package."""
    try:
        yield
    except httpx.ConnectTimeout as error:
        limits = error.request.extensions["timeout"]
        if limits["connect"] == limits["read"]:  # all the time that the call had
            raise DeadlineExceeded(request_id=call.request_id) from error
        detail = f"{url}: no connection after {limits['connect']:g} s"
        raise ConnectionRefused(detail=detail, request_id=call.request_id) from error
    except (httpx.TimeoutException, TimeoutError) as error:  # by httpx or asyncio
        raise DeadlineExceeded(request_id=call.request_id) from error
    except httpx.RequestError as error:
        is_refused = isinstance(error, httpx.ConnectError) and _is_refused(error)
        kind = ConnectionRefused if is_refused else Unreachable
        detail = f"{url}{call.path}: {error or type(error).__name__}"
        raise kind(detail=detail, request_id=call.request_id) from error


def _is_refused(error: BaseException | None) -> bool:
    """Whether no connection could be made; httpx hides the reason in the causes of its error."""
    if isinstance(error, BaseExceptionGroup):  # every address of a name was tried
        return all(map(_is_refused, error.exceptions))
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in NOT_CONNECTED
    return error is not None and _is_refused(error.__cause__ or error.__context__)
