# SPDX-License-Identifier: Apache-2.0
"""Errors as clients of Triton expect them: their messages, and their statuses over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from servekit.errors import InputError, ModelNotFound, QueueFull, UnknownMediaType
from servekit.extension import error_message

if TYPE_CHECKING:
    from servekit.errors import ServekitError

__all__ = ["NO_FILES", "error_body", "error_text", "http_status"]

#: why a load with files fails; clients look for the part before the colon
NO_FILES: Final = "failed to poll from model repository: files cannot be sent with a load"
#: statuses that differ from those of native routes
STATUSES: dict[type[ServekitError], int] = {InputError: 400, UnknownMediaType: 400, QueueFull: 503}


def http_status(error: ServekitError) -> int:
    """Return the status of a response that reports *error*."""
    for kind, status in STATUSES.items():
        if isinstance(error, kind):
            return status
    return error.status


def error_text(error: ServekitError) -> str:
    """Return the message for the client; clients compare its beginning for unknown models."""
    text = error_message(error)
    return f"Request for unknown model: {text}" if isinstance(error, ModelNotFound) else text


def error_body(error: ServekitError) -> bytes:
    """Return the JSON of *error*."""
    return msgspec.json.encode({"error": error_text(error)})
