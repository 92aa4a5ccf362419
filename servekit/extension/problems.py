# SPDX-License-Identifier: Apache-2.0
"""Errors as responses: problem details (RFC 9457)."""

from typing import Final

import msgspec

from servekit.errors import MethodNotAllowed, ServekitError, Unauthorized, UnknownCoding, problem_of
from servekit.extension.http import HttpResponse

__all__ = ["PROBLEM", "problem_response"]

PROBLEM: Final = "application/problem+json"


def problem_response(error: ServekitError, request_id: str) -> HttpResponse:
    """Return the response with the problem details of *error* (RFC 9457)."""
    fields = []
    if error.retry_after_s is not None:
        fields.append(("Retry-After", str(error.retry_after_s)))
    if isinstance(error, MethodNotAllowed):
        fields.append(("Allow", error.allow))
    if isinstance(error, Unauthorized):
        fields.append(("WWW-Authenticate", error.challenge))
    if isinstance(error, UnknownCoding):
        fields.append(("Accept-Encoding", ", ".join(error.accepted)))
    body = msgspec.json.encode(problem_of(error, request_id))
    return HttpResponse(type(error).status, body, PROBLEM, request_id, fields=fields)
