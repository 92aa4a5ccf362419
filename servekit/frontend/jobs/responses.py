# SPDX-License-Identifier: Apache-2.0
"""What is said about a job, apart from its answer: heads and bodies for a connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from servekit.frontend.exchange.response import status_line

if TYPE_CHECKING:
    from servekit.frontend.jobs.store import Found

__all__ = ["accepted", "methods", "removed", "state"]

PENDING, COMPLETED, FAILED = "pending", "completed", "failed"
FIRST_ERROR = 400  #: a status from here on is a failure


def accepted(date: bytes, name: str, model: str, request_id: str) -> tuple[bytes, bytes]:
    """Return the answer to a request that became a job."""
    body = msgspec.json.encode(_members(name, model))
    lines = b"Location: /jobs/%b\r\nPreference-Applied: respond-async\r\n" % name.encode()
    return _head(202, date, request_id, lines, len(body)), body


def state(
    date: bytes, name: str, found: Found, request_id: str, *, is_result: bool
) -> tuple[bytes, bytes]:
    """Return how a job stands.

    :param is_result: its answer was asked for, and is not there yet.
    """
    members = _members(name, found.model)
    if found.answer is not None:
        members["status"] = FAILED if found.status >= FIRST_ERROR else COMPLETED
        members["result_status"] = found.status
    body = msgspec.json.encode(members)
    lines = b"Retry-After: 1\r\n" if is_result else b""
    return _head(202 if is_result else 200, date, request_id, lines, len(body)), body


def removed(date: bytes, request_id: str) -> bytes:
    """Return the answer to the wish that a job be forgotten."""
    return b"%b%bX-Request-Id: %b\r\n" % (status_line(204), date, request_id.encode("latin-1"))


def methods(date: bytes, request_id: str, allowed: str) -> bytes:
    """Return the answer to OPTIONS."""
    return removed(date, request_id) + b"Allow: %b\r\n" % allowed.encode()


def _members(name: str, model: str) -> dict[str, Any]:
    url = f"/jobs/{name}"
    return {
        "id": name,
        "status": PENDING,
        "model": model,
        "url": url,
        "result_url": f"{url}/result",
    }


def _head(status: int, date: bytes, request_id: str, lines: bytes, size: int) -> bytes:
    return (
        b"%b%b%bContent-Type: application/json\r\nCache-Control: no-store\r\n"
        b"X-Request-Id: %b\r\nContent-Length: %d\r\n"
    ) % (status_line(status), date, lines, request_id.encode("latin-1"), size)
