# SPDX-License-Identifier: Apache-2.0
"""Errors as OpenAI's clients expect them: ``{"error": {"message", "type", "param", "code"}}``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from servekit.errors import (
    InputError,
    ModelNotFound,
    NoRoomForModel,
    OutOfMemory,
    RequestError,
    Unauthorized,
)
from servekit.extension import HttpResponse, Protocol, error_fields, error_message

if TYPE_CHECKING:
    from servekit.errors import ServekitError

__all__ = ["OpenAIErrors", "refusal"]

#: statuses that clients know, where ours is another one
STATUSES: Final[dict[type[ServekitError], int]] = {
    InputError: 400,
    OutOfMemory: 500,
    NoRoomForModel: 503,
}
TYPES: Final = {429: "rate_limit_error"}
CODES: Final[dict[type[ServekitError], str]] = {
    Unauthorized: "invalid_api_key",
    ModelNotFound: "model_not_found",
}
#: statuses below 500 after which clients try again by default
RETRIED: Final = (408, 409, 429)


class OpenAIErrors(Protocol):
    """A protocol whose errors are those of OpenAI."""

    keep_alive = b": \n\n"

    def error_response(self, error: ServekitError, request_id: str) -> HttpResponse:
        """Return the error object, and the fields by which clients decide whether to try again."""
        status, body = status_of(error), msgspec.json.encode(error_object(error))
        fields = error_fields(error)
        if error.retry_after_s is not None:
            fields.append(("retry-after-ms", str(error.retry_after_s * 1000)))
        if status >= 500 or status in RETRIED:
            is_temporary = error.retry_after_s is not None
            fields.append(("x-should-retry", "true" if is_temporary else "false"))
        return HttpResponse(
            status, body, "application/json", request_id, fields=fields, error=error
        )

    def stream_error(self, error: ServekitError, request_id: str) -> bytes:  # noqa: ARG002
        """Return an event that clients raise as an ``APIError``, and the end."""
        return b"data: %b\n\ndata: [DONE]\n\n" % msgspec.json.encode(error_object(error))


def status_of(error: ServekitError) -> int:
    """Return the status with which OpenAI reports such an error."""
    return next(
        (status for kind, status in STATUSES.items() if isinstance(error, kind)), error.status
    )


def error_object(error: ServekitError) -> dict[str, Any]:
    """Return the body of a response that reports *error*."""
    status = status_of(error)
    fallback = "server_error" if status >= 500 else "invalid_request_error"
    codes = (code for kind, code in CODES.items() if isinstance(error, kind))
    members = {
        "message": error_message(error),
        "type": TYPES.get(status, fallback),
        "param": param_of(error),
        "code": next(codes, None),
    }
    return {"error": members}


def param_of(error: ServekitError) -> str | None:
    """Return the member of the body that *error* is about, if that is known."""
    if isinstance(error, ModelNotFound):
        return "model"
    wrong = error.errors if isinstance(error, RequestError) else []
    field = wrong[0].get("field") if wrong and isinstance(wrong[0], dict) else None
    return field or None


def refusal(field: str, message: str) -> InputError:
    """Return the error of a body whose member *field* is wrong."""
    return InputError(f"{field}: {message}", [{"field": field, "message": message}])
