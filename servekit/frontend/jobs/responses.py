# SPDX-License-Identifier: Apache-2.0
"""What is said about a job, apart from its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from servekit.extension import HttpResponse

if TYPE_CHECKING:
    from servekit.frontend.jobs.store import Found

__all__ = ["accepted", "methods", "removed", "state"]

PENDING, COMPLETED, FAILED = "pending", "completed", "failed"
FIRST_ERROR = 400  #: a status from here on is a failure
JSON = "application/json"
NO_STORE = ("Cache-Control", "no-store")


def accepted(name: str, model: str, request_id: str) -> HttpResponse:
    """Return the response to a request that became a job."""
    location = [("Location", f"/jobs/{name}"), ("Preference-Applied", "respond-async")]
    body = msgspec.json.encode(_members(name, model))
    return HttpResponse(202, body, JSON, request_id, fields=[*location, NO_STORE])


def state(name: str, found: Found, request_id: str, *, is_result: bool) -> HttpResponse:
    """Return how a job stands.

    :param is_result: its result was asked for, and is not there yet.
    """
    members = _members(name, found.model)
    if found.result is not None:
        status = found.result.status
        members["status"] = FAILED if status >= FIRST_ERROR else COMPLETED
        members["result_status"] = status
    fields = [("Retry-After", "1"), NO_STORE] if is_result else [NO_STORE]
    body = msgspec.json.encode(members)
    return HttpResponse(202 if is_result else 200, body, JSON, request_id, fields=fields)


def removed(request_id: str) -> HttpResponse:
    """Return the response to DELETE."""
    return HttpResponse(204, request_id=request_id)


def methods(request_id: str, allowed: str) -> HttpResponse:
    """Return the response to OPTIONS."""
    return HttpResponse(204, request_id=request_id, fields=[("Allow", allowed)])


def _members(name: str, model: str) -> dict[str, Any]:
    url = f"/jobs/{name}"
    return {
        "id": name,
        "status": PENDING,
        "model": model,
        "url": url,
        "result_url": f"{url}/result",
    }
