# SPDX-License-Identifier: Apache-2.0
"""Calls the Flask app (PEP 3333).

Each call runs in its own greenlet, so a slow view does not delay other requests.
"""

from __future__ import annotations

import io
import logging
import sys
from typing import TYPE_CHECKING, Any

from servekit.errors import ServekitError
from servekit.extension.http import HttpResponse
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
        status, headers, body = _run(application, _environ(address, clients, exchange, request))
        response = _response(int(status[:3]), headers, body, request)
    except Exception:
        log.exception("unexpected error, request %s", request.request_id)
        exchange.fail(ServekitError(), request.request_id)
    else:
        exchange.respond(response)


def _response(status: int, headers: Headers, body: bytes, request: HttpRequest) -> HttpResponse:
    known = {name.lower(): value for name, value in headers}
    length = known.get("content-length")
    is_head = request.method == b"HEAD"
    return HttpResponse(
        status,
        body,
        known.get("content-type", ""),
        request.request_id,
        fields=[(name, value) for name, value in headers if name.lower() not in OURS],
        length=int(length) if is_head and length else None,  # as a GET would have
    )


def _run(application: Application, environ: dict[str, Any]) -> tuple[str, Headers, bytes]:
    """Call *application* and return status, headers and the whole body."""
    started: list[Any] = []
    written: list[bytes] = []

    def start_response(status: str, headers: list[tuple[str, str]], _exc: Any = None) -> Any:
        started[:] = [status, headers]
        return written.append

    chunks = application(environ, start_response)
    try:
        written.extend(chunks)
    finally:
        if hasattr(chunks, "close"):
            chunks.close()
    status, headers = started
    return status, headers, b"".join(written)


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
        elif key != "CONTENT_LENGTH" and b"_" not in name:  # a-b and a_b must not be confused
            environ["HTTP_" + key] = value.decode("latin-1")
    return environ
