# SPDX-License-Identifier: Apache-2.0
"""Turns an error response into the error that it stands for."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final

from servekit_client.answers import Answer, list_of, member
from servekit_client.errors import (
    AnswerMalformed,
    DeadlineExceeded,
    InputError,
    NotFound,
    QueueFull,
    RequestError,
    ServekitError,
    ServiceError,
    Unauthorized,
    Unavailable,
)

__all__ = ["outcomes", "problem"]

KINDS: Final[Mapping[int, type[ServekitError]]] = {
    401: Unauthorized,
    403: Unauthorized,
    404: NotFound,
    422: InputError,
    429: QueueFull,
    503: Unavailable,
    504: DeadlineExceeded,
}


def problem(status: int, headers: Mapping[str, str], body: bytes, request_id: str) -> ServekitError:
    """Return the error of *status*, with the details of *body*, even of a proxy's page."""
    told = _told(body)
    errors = told.get("errors")
    return _kind(status)(
        str(told.get("title") or _phrase(status)),
        status=status,
        detail=_detail(told),
        errors=[each for each in errors if isinstance(each, dict)]
        if isinstance(errors, list)
        else (),
        request_id=str(told.get("request_id") or headers.get("X-Request-Id") or request_id),
        retry_after_s=_seconds(headers.get("Retry-After", "")),
    )


def outcomes(answer: Answer, *, envelope: bool = True) -> list[Any]:
    """Return what *answer* has for each of several inputs: its output, or its error.

    :param envelope: otherwise outputs are the elements of a list, without ``prediction``.
    :raises AnswerMalformed: it has no such things.
    """
    try:
        if not envelope:
            return [_bare_outcome(each, answer.request_id) for each in list_of(answer)]
        return [_outcome(each, answer.request_id) for each in member(answer, "predictions")]
    except (KeyError, TypeError, AttributeError) as error:
        raise AnswerMalformed(
            detail=f"no predictions: {error!r}", request_id=answer.request_id
        ) from error


def _outcome(told: Mapping[str, Any], request_id: str) -> Any:
    if "error" not in told:
        return told["prediction"]
    found = told["error"]
    return problem(found["status"], {}, json.dumps(found).encode(), request_id)


def _bare_outcome(told: Any, request_id: str) -> Any:
    is_error = isinstance(told, dict) and told.keys() == {"error"}
    if is_error and isinstance(told["error"], dict) and "request_id" in told["error"]:
        return _outcome(told, request_id)
    return told


def _kind(status: int) -> type[ServekitError]:
    if status in KINDS:
        return KINDS[status]
    if status >= 500:
        return ServiceError
    return RequestError if status >= 400 else AnswerMalformed


def _told(body: bytes) -> dict[str, Any]:
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def _detail(told: Mapping[str, Any]) -> str:
    reasons = told.get("reasons")  # the reasons of ``/ping``
    if isinstance(reasons, list):
        return "; ".join(map(str, reasons))
    return str(told.get("detail") or "")


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown status"


def _seconds(retry_after: str) -> float | None:
    """Return how long ``Retry-After`` asks to wait; a proxy may write a date there."""
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after)
    try:
        moment = parsedate_to_datetime(retry_after).astimezone(UTC)
    except (ValueError, OverflowError):  # the last hours of the year 9999 are after it elsewhere
        return None
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
