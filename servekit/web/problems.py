# SPDX-License-Identifier: Apache-2.0
"""How the errors of a prediction are described."""

from typing import Any, Final

from servekit.errors import (
    BodyTooLarge,
    DeadlineExceeded,
    InputError,
    MethodNotAllowed,
    ModelNotFound,
    NotAcceptable,
    QueueFull,
    RequestError,
    ServekitError,
    ServiceError,
    Unavailable,
    UnknownMediaType,
)

__all__ = ["SCHEMA", "responses"]

KINDS: Final[tuple[type[ServekitError], ...]] = (
    RequestError,
    ModelNotFound,
    MethodNotAllowed,
    NotAcceptable,
    BodyTooLarge,
    UnknownMediaType,
    InputError,
    QueueFull,
    ServiceError,
    Unavailable,
    DeadlineExceeded,
)
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
ALLOW: Final = {"description": "The methods of this route.", "schema": TEXT}


def responses(schema: str) -> dict[str, Any]:
    """Return the OpenAPI responses of every error; *schema* is where ``SCHEMA`` lies."""
    content = {"application/problem+json": {"schema": {"$ref": schema}}}
    return {
        str(kind.status): {"description": kind.title, "content": content, **_headers(kind)}
        for kind in KINDS
    }


def _headers(kind: type[ServekitError]) -> dict[str, Any]:
    if kind is MethodNotAllowed:
        return {"headers": {"Allow": ALLOW}}
    return {} if kind.retry_after_s is None else {"headers": {"Retry-After": RETRY_AFTER}}
