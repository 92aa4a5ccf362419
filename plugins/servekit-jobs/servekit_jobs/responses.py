# SPDX-License-Identifier: Apache-2.0
"""Responses about jobs, apart from their results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from servekit.extension import HttpResponse

if TYPE_CHECKING:
    from servekit_jobs.store import StoredJob

__all__ = ["accepted", "allowed", "deleted", "state", "state_of"]

PENDING, COMPLETED, FAILED = "pending", "completed", "failed"
FIRST_ERROR = 400  #: a status from here on is a failure
JSON = "application/json"
NO_STORE = ("Cache-Control", "no-store")


def accepted(name: str, model: str, request_id: str) -> HttpResponse:
    """Return the response to a request that became a job."""
    location = [("Location", f"/jobs/{name}"), ("Preference-Applied", "respond-async")]
    body = msgspec.json.encode(_members(name, model))
    return HttpResponse(202, body, JSON, request_id, fields=[*location, NO_STORE])


def state(name: str, job: StoredJob, request_id: str, *, is_result: bool) -> HttpResponse:
    """Return the state of a job.

    :param is_result: its result was asked for, and there is none yet.
    """
    fields = [("Retry-After", "1"), NO_STORE] if is_result else [NO_STORE]
    body = msgspec.json.encode(state_of(name, job))
    return HttpResponse(202 if is_result else 200, body, JSON, request_id, fields=fields)


def state_of(name: str, job: StoredJob) -> dict[str, Any]:
    """Return the members that show the state of a job."""
    members = _members(name, job.model)
    if job.result is not None:
        status = job.result.status
        members["status"] = FAILED if status >= FIRST_ERROR else COMPLETED
        members["result_status"] = status
    return members


def deleted(request_id: str) -> HttpResponse:
    """Return the response to DELETE."""
    return HttpResponse(204, request_id=request_id)


def allowed(methods: str, request_id: str) -> HttpResponse:
    """Return the response to OPTIONS."""
    return HttpResponse(204, request_id=request_id, fields=[("Allow", methods)])


def _members(name: str, model: str) -> dict[str, Any]:
    url = f"/jobs/{name}"
    return {
        "id": name,
        "status": PENDING,
        "model": model,
        "url": url,
        "result_url": f"{url}/result",
    }
