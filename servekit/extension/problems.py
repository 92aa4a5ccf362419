# SPDX-License-Identifier: Apache-2.0
"""Errors as responses: problem details (RFC 9457), and what other formats need of an error."""

from typing import Final

import msgspec

from servekit.errors import MethodNotAllowed, ServekitError, Unauthorized, UnknownCoding, problem_of
from servekit.extension.http import HttpResponse

__all__ = ["PROBLEM", "error_fields", "error_message", "problem_response"]

PROBLEM: Final = "application/problem+json"


def problem_response(error: ServekitError, request_id: str) -> HttpResponse:
    """Return the response with the problem details of *error* (RFC 9457)."""
    body = msgspec.json.encode(problem_of(error, request_id))
    fields = error_fields(error)
    return HttpResponse(error.status, body, PROBLEM, request_id, fields=fields, error=error)


def error_fields(error: ServekitError) -> list[tuple[str, str]]:
    """Return the header fields that belong to the status of *error*: ``Retry-After``, ``Allow``."""
    fields = []
    if error.retry_after_s is not None:
        fields.append(("Retry-After", str(error.retry_after_s)))
    if isinstance(error, MethodNotAllowed):
        fields.append(("Allow", error.allow))
    if isinstance(error, Unauthorized):
        fields.append(("WWW-Authenticate", error.challenge))
    if isinstance(error, UnknownCoding):
        fields.append(("Accept-Encoding", ", ".join(error.accepted)))
    return fields


def error_message(error: ServekitError) -> str:
    """Return the part of *error* that is safe to show a client, as one string."""
    members = problem_of(error, "")
    return str(members.get("detail") or members["title"])
