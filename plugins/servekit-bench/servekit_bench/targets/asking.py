# SPDX-License-Identifier: Apache-2.0
"""Single requests to a server that is to be measured."""

from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final

import msgspec

from servekit.errors import StartupError
from servekit.extension import UnixConnection
from servekit_bench.load import Target, TimedRequest
from servekit_bench.load.connection import tls_context

__all__ = ["MESSAGE", "ask", "ask_json", "where"]

MESSAGE: Final = 300  #: characters of a refusal, as they are shown


def ask(target: Target, request: TimedRequest, timeout_s: float) -> tuple[int, bytes]:
    """Send one request; return the status and the body.

    :raises StartupError: the server does not answer.
    """
    try:
        connection = _connection(target, timeout_s)
        try:
            headers = {"Host": target.name, **dict(request.headers)}
            connection.request(request.method, request.path, request.body or None, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()
    except (OSError, HTTPException) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise StartupError(f"{where(target)}: {why}") from error


def ask_json(target: Target, path: str, headers: Mapping[str, str], timeout_s: float) -> Any:
    """Return the JSON at *path*; ``None`` if the server does not have it."""
    given = (*headers.items(), ("Accept", "application/json"))
    status, body = ask(target, TimedRequest(path, b"", given, method="GET"), timeout_s)
    if status in (401, 403):
        reason = body.decode(errors="replace")[:MESSAGE]
        raise StartupError(f"{where(target)}{path}: {status}: {reason}; see --token-file, --header")
    try:
        return msgspec.json.decode(body) if status == 200 else None
    except msgspec.DecodeError:
        return None


def where(target: Target) -> str:
    """Return the address for messages."""
    if target.unix_path:
        return f"unix:{target.unix_path}"
    return f"{'https' if target.tls else 'http'}://{target.name}"


def _connection(target: Target, timeout_s: float) -> HTTPConnection:
    if target.unix_path:
        return UnixConnection(target.unix_path, timeout_s)
    if target.tls:
        context = tls_context(target.tls)
        return HTTPSConnection(target.host, target.port, timeout=timeout_s, context=context)
    return HTTPConnection(target.host, target.port, timeout=timeout_s)
