# SPDX-License-Identifier: Apache-2.0
"""Calls the Flask app (PEP 3333).

Each call runs in its own greenlet, so a slow view does not delay other requests. A response without
``Content-Length`` is streamed: each piece is made when the client has taken the one before.
"""

from __future__ import annotations

import io
import logging
import sys
from contextlib import closing, nullcontext
from itertools import chain
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import gevent

from servekit.errors import ServekitError
from servekit.extension.http import NO_LENGTH, WITHOUT_CONTENT, HttpResponse
from servekit.frontend.http.targets import path_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest
    from servekit.frontend.http.client_address import ClientAddresses

    Headers = list[tuple[str, str]]
    Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

__all__ = ["call_application"]

#: fields that the transport writes, or that are members of the response
OURS = frozenset(("connection", "content-length", "content-type", "date", "transfer-encoding"))
FRAMING: Final = ("CONTENT_LENGTH", "TRANSFER_ENCODING")  #: the body is whole, and not in chunks
STUCK_S: Final = 30.0  #: how long a client may take nothing of a stream
POLL_S: Final = 0.02  #: how often a stream checks whether its client has taken a piece

log = logging.getLogger("servekit.frontend")


def call_application(
    application: Application,
    address: tuple[str, int],
    clients: ClientAddresses,
    exchange: Exchange,
    request: HttpRequest,
) -> None:
    """Run *application* for *request* and respond on *exchange*. Runs in a greenlet.

    :param address: host and port of the listener.
    :param clients: finds the addresses of clients.
    """
    try:
        environ = _environ(address, clients, exchange, request)
        _answer(application, environ, exchange, request)
    except Exception:
        log.exception("unexpected error, request %s", request.request_id)
        exchange.fail(ServekitError(), request.request_id)


def _answer(
    application: Application, environ: dict[str, Any], exchange: Exchange, request: HttpRequest
) -> None:
    """Call *application*, and send the whole of its response or stream it."""
    started: list[Any] = []
    written: list[bytes] = []

    def start_response(status: str, headers: list[tuple[str, str]], _exc: Any = None) -> Any:
        started[:] = [status, headers]
        return written.append

    pieces = application(environ, start_response)
    with closing(pieces) if hasattr(pieces, "close") else nullcontext():  # type: ignore[type-var]
        status, headers = started
        response = _response(int(status[:3]), headers, request)
        if response.is_streamed:
            ApplicationStream(exchange, response).send(chain(written, pieces))
            return
        response.body = b"".join([*written, *pieces])
    exchange.respond(response)


def _response(status: int, headers: Headers, request: HttpRequest) -> HttpResponse:
    """Return the head of a response."""
    known = {name.lower(): value for name, value in headers}
    stated = known.get("content-length")
    length = int(stated) if stated and request.method == b"HEAD" else None  # as a GET would have
    if stated is None and status not in WITHOUT_CONTENT and request.method != b"HEAD":
        length = NO_LENGTH
    return HttpResponse(
        status,
        b"",
        known.get("content-type", ""),
        request.request_id,
        fields=[(name, value) for name, value in headers if name.lower() not in OURS],
        length=length,
    )


class ApplicationStream:
    """A streamed response of the application, in the greenlet that makes it.

    It is also the ``prediction`` of its exchange: a client that disconnects ends the greenlet, and
    so the view, whatever it waits for.
    """

    is_sent = True

    def __init__(self, exchange: Exchange, response: HttpResponse) -> None:
        """Send *response* on *exchange*."""
        self._exchange = exchange
        self._greenlet = gevent.getcurrent()
        self._size = 0
        exchange.prediction = self
        self._writer = exchange.begin_stream(self, response)

    def cancel(self) -> None:
        """Stop: the client has disconnected."""
        if self._greenlet is not gevent.getcurrent():
            gevent.kill(self._greenlet)

    def fail(self, error: ServekitError) -> None:
        """Cut the response off: the client sees that its end is missing."""
        self._exchange.end_stream(self._size, error.status)
        self._exchange.reset()

    def send(self, pieces: Iterable[bytes]) -> None:
        """Send *pieces*, each when the client has taken the one before."""
        for piece in pieces:
            if piece and not self._exchange.is_closed:
                self._writer.write(piece)
                self._size += len(piece)
            if not self._is_taken():
                return
        self._writer.end()
        self._exchange.end_stream(self._size)

    def _is_taken(self) -> bool:
        """Wait for the client; return whether it is still there."""
        deadline = monotonic() + STUCK_S
        while self._writer.is_waiting and not self._exchange.is_closed:
            if monotonic() > deadline:
                self._exchange.reset()
            gevent.sleep(POLL_S)
        return not self._exchange.is_closed


def _environ(
    address: tuple[str, int], clients: ClientAddresses, exchange: Exchange, request: HttpRequest
) -> dict[str, Any]:
    target = request.target
    body = request.body
    assert isinstance(body, bytes)  # only the bodies of predictions lie in shared memory
    query = target.partition(b"?")[2]
    host, port = address
    is_https = exchange.is_encrypted or clients.is_https(exchange.peer, request.headers)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method.decode("latin-1"),
        "SCRIPT_NAME": "",
        "PATH_INFO": path_of(target).decode("latin-1"),
        "RAW_URI": target.decode("latin-1"),
        "QUERY_STRING": query.decode("latin-1"),
        "SERVER_NAME": host,
        "SERVER_PORT": str(port),
        "SERVER_PROTOCOL": f"HTTP/{request.version}",
        "REMOTE_ADDR": clients.client_of(exchange.peer, request.headers),
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "https" if is_https else "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
        "servekit.request_id": request.request_id,
    }
    for name, value in request.headers.items():
        key = name.decode("latin-1").upper().replace("-", "_")
        if key == "CONTENT_TYPE":
            environ[key] = value.decode("latin-1")
        elif key not in FRAMING and b"_" not in name:  # a-b and a_b must not be confused
            environ["HTTP_" + key] = value.decode("latin-1")
    return environ
