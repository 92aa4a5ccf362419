# SPDX-License-Identifier: Apache-2.0
"""Hands a request to the Flask app and its answer back to the connection (PEP 3333).

Each call runs in a greenlet of its own, so a slow view holds up nobody else.
"""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

from servekit.errors import ServekitError
from servekit.frontend.exchange.response import status_line
from servekit.frontend.http.targets import path_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from servekit.frontend.exchange.protocols import Asker
    from servekit.frontend.http.request_builder import HttpRequest

    Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

__all__ = ["call_application"]


def call_application(
    application: Application, connection: Asker, request: HttpRequest, request_id: str
) -> None:
    """Run *application* for *request* and answer on *connection*. Runs in a greenlet."""
    front_end = connection.front_end
    try:
        status, headers, body = _run(application, _environ(connection, request, request_id))
    except Exception:  # noqa: BLE001 - the last line of defence of a whole connection
        front_end.log_exception(f"while answering request {request_id}")
        connection.answer_problem(ServekitError(), request_id)
        return
    lines = [status_line(int(status[:3])), front_end.heads.date]
    lines += [
        f"{name}: {value}\r\n".encode("latin-1")
        for name, value in headers
        if name.lower() not in ("content-length", "date", "connection", "transfer-encoding")
    ]
    lines.append(f"X-Request-Id: {request_id}\r\n".encode())
    lines.append(_length_line(status, headers, body, request.method))
    connection.answer(b"".join(lines), b"" if request.method == b"HEAD" else body)


def _run(
    application: Application, environ: dict[str, Any]
) -> tuple[str, list[tuple[str, str]], bytes]:
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


def _length_line(status: str, headers: list[tuple[str, str]], body: bytes, method: bytes) -> bytes:
    if status[:3] in ("204", "304"):
        return b""
    length = len(body)
    if method == b"HEAD":  # the length that GET would have
        declared = {name.lower(): value for name, value in headers}.get("content-length")
        length = int(declared) if declared else length
    return b"Content-Length: %d\r\n" % length


def _environ(connection: Asker, request: HttpRequest, request_id: str) -> dict[str, Any]:
    target = request.target
    body = request.body
    assert isinstance(body, bytes)  # only the bodies of predictions lie in shared memory
    query = target.partition(b"?")[2]
    host, port = connection.front_end.address
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method.decode("latin-1"),
        "SCRIPT_NAME": "",
        "PATH_INFO": path_of(target).decode("latin-1"),
        "RAW_URI": target.decode("latin-1"),
        "QUERY_STRING": query.decode("latin-1"),
        "SERVER_NAME": host,
        "SERVER_PORT": str(port),
        "SERVER_PROTOCOL": f"HTTP/{request.version}",
        "REMOTE_ADDR": connection.peer[0] if connection.peer else "",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "https" if connection.is_encrypted else "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
        "servekit.request_id": request_id,
    }
    for name, value in request.headers.items():
        key = name.decode("latin-1").upper().replace("-", "_")
        if key == "CONTENT_TYPE":
            environ[key] = value.decode("latin-1")
        elif key != "CONTENT_LENGTH" and b"_" not in name:  # a-b and a_b must not be confused
            environ["HTTP_" + key] = value.decode("latin-1")
    return environ
