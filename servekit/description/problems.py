# SPDX-License-Identifier: Apache-2.0
"""The errors of a prediction, as OpenAPI describes them."""

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

__all__ = ["SCHEMA", "responses", "shared_responses"]

TEXT: Final = {"type": "string"}
#: problem details (RFC 9457), as a schema that Swagger 2.0 can express too
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
CHALLENGE: Final = {"description": "What ``Authorization`` must contain.", "schema": TEXT}
CODINGS: Final = {
    "description": "The accepted codings, if ``Content-Encoding`` is refused.",
    "schema": TEXT,
}
ALLOW: Final = {"description": "The methods of this route.", "schema": TEXT}
HEADERS: Final = {
    MethodNotAllowed: ("Allow", ALLOW),
    UnknownCoding: ("Accept-Encoding", CODINGS),
    Unauthorized: ("WWW-Authenticate", CHALLENGE),
}
RESPONSES: Final = "#/components/responses/"
#: first digit of the status to a name and a description
GROUPS: Final = {
    "4XX": ("Refused", "The request is refused: the client can correct it, or must wait."),
    "5XX": ("Failed", "The server or the service failed, or cannot answer now."),
}


def responses() -> dict[str, Any]:
    """Return the errors of an operation, grouped under one name for each kind."""
    return {status: {"$ref": f"{RESPONSES}{name}"} for status, (name, _) in GROUPS.items()}


def shared_responses(schema: str) -> dict[str, Any]:
    """Return the components of ``responses``; *schema* is the reference of ``SCHEMA``."""
    content = {"application/problem+json": {"schema": {"$ref": schema}}}
    return {
        name: {"description": _described(words, first), "content": content, **_headers(first)}
        for first, (name, words) in GROUPS.items()
    }


def _described(words: str, group: str) -> str:
    """Return *words* and a line for each status of *group*."""
    lines = [f"* {status}: {_titles(kinds)}" for status, kinds in _of_group(group)]
    return "\n".join([words, "", *lines])


def _of_group(group: str) -> list[tuple[int, list[type[ServekitError]]]]:
    found = sorted(_kinds_by_status().items())
    return [(status, kinds) for status, kinds in found if str(status)[0] == group[0]]


def _kinds_by_status() -> dict[int, list[type[ServekitError]]]:
    """Return every error that a client can get, base classes first."""
    found: dict[int, list[type[ServekitError]]] = {}
    for kind in vars(errors).values():
        is_error = isinstance(kind, type) and issubclass(kind, ServekitError)
        if is_error and not issubclass(kind, StartupError):
            found.setdefault(kind.status, []).append(kind)
    return found


def _titles(kinds: Sequence[type[ServekitError]]) -> str:
    return ", ".join(dict.fromkeys(kind.title for kind in kinds))


def _headers(group: str) -> dict[str, Any]:
    """Return the headers that errors of *group* may have."""
    every = [kind for _, kinds in _of_group(group) for kind in kinds]
    headers = {name: header for kind, (name, header) in HEADERS.items() if kind in every}
    if any(kind.retry_after_s is not None for kind in every):
        headers["Retry-After"] = RETRY_AFTER
    return {"headers": headers}
