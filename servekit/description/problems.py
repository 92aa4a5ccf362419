# SPDX-License-Identifier: Apache-2.0
"""How the errors of a prediction are described."""

from collections.abc import Sequence
from typing import Any, Final

from servekit import errors
from servekit.errors import (
    MethodNotAllowed,
    ServekitError,
    StartupError,
    Unauthorized,
    UnknownCoding,
)

__all__ = ["SCHEMA", "responses"]

TEXT: Final = {"type": "string"}
#: problem details (RFC 9457), in words that Swagger 2.0 knows too
SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "type": TEXT,
        "title": TEXT,
        "status": {"type": "integer"},
        "detail": TEXT,
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"field": TEXT, "message": TEXT},
                "required": ["field", "message"],
            },
        },
        "request_id": TEXT,
    },
    "required": ["type", "title", "status", "request_id"],
}
RETRY_AFTER: Final = {
    "description": "Seconds to wait before the next try.",
    "schema": {"type": "integer"},
}
CHALLENGE: Final = {"description": "What has to come in ``Authorization``.", "schema": TEXT}
CODINGS: Final = {
    "description": "The codings that are taken, where ``Content-Encoding`` is refused.",
    "schema": TEXT,
}
ALLOW: Final = {"description": "The methods of this route.", "schema": TEXT}


def responses(schema: str) -> dict[str, Any]:
    """Return the OpenAPI responses of every error; *schema* is where ``SCHEMA`` lies."""
    content = {"application/problem+json": {"schema": {"$ref": schema}}}
    return {
        str(status): {"description": _titles(kinds), "content": content, **_headers(kinds)}
        for status, kinds in sorted(_kinds_by_status().items())
    }


def _kinds_by_status() -> dict[int, list[type[ServekitError]]]:
    """Return every error that a client can meet, bases before what derives from them."""
    found: dict[int, list[type[ServekitError]]] = {}
    for kind in vars(errors).values():
        is_error = isinstance(kind, type) and issubclass(kind, ServekitError)
        if is_error and not issubclass(kind, StartupError):
            found.setdefault(kind.status, []).append(kind)
    return found


def _titles(kinds: Sequence[type[ServekitError]]) -> str:
    return ", ".join(dict.fromkeys(kind.title for kind in kinds))


def _headers(kinds: Sequence[type[ServekitError]]) -> dict[str, Any]:
    if MethodNotAllowed in kinds:
        return {"headers": {"Allow": ALLOW}}
    if UnknownCoding in kinds:
        return {"headers": {"Accept-Encoding": CODINGS}}
    if Unauthorized in kinds:
        return {"headers": {"WWW-Authenticate": CHALLENGE}}
    may_retry = any(kind.retry_after_s is not None for kind in kinds)
    return {"headers": {"Retry-After": RETRY_AFTER}} if may_retry else {}
