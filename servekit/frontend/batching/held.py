# SPDX-License-Identifier: Apache-2.0
"""The requests that a worker held when it was lost, for its crash report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servekit.frontend.http.fields import SECRETS
from servekit.ipc.batches import QUERY, Slab
from servekit.ipc.crash_reports import HeldRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.extension.http import HttpRequest
    from servekit.frontend.batching.task import Task

__all__ = ["held_requests"]

MAX_BYTES = 16 * 2**20  #: all bodies of one report, which is one message
NOTED = (b"content-type", b"accept")
#: they say who somebody is, and predictions rarely depend on them
HIDDEN = (*SECRETS, b"cookie")


def held_requests(batch: Sequence[Task], keep_bodies: int) -> list[HeldRequest]:
    """Return the requests of *batch*, in order.

    :param keep_bodies: size of the largest body that is kept; with 0, nothing is kept that may
        be an input: no body, no query, and no headers that the service reads.
    """
    left, found = MAX_BYTES, []
    for task in batch:
        request = task.exchange.request if task.exchange is not None else None
        if request is None:  # a part of a request, which nobody could send
            found.append(HeldRequest(request_id=task.request_id, body_bytes=task.body_bytes))
            continue
        held = _without_body(task, request, is_whole=keep_bodies > 0)
        if 0 < held.body_bytes <= min(keep_bodies, left):
            held.body = _body_of(task, request)
            left -= len(held.body or b"")
        found.append(held)
    return found


def _without_body(task: Task, request: HttpRequest, *, is_whole: bool) -> HeldRequest:
    path, mark, query = request.target.partition(b"?")
    names = [*NOTED]
    if is_whole:
        path += mark + query
        names += [each.encode() for each in task.owner.row.asked if not each.startswith(QUERY)]
    headers = {
        name.decode("latin-1"): request.headers[name].decode("latin-1")
        for name in dict.fromkeys(names)
        if name in request.headers and name not in HIDDEN
    }
    body = request.body
    return HeldRequest(
        request_id=task.request_id,
        method=request.method.decode("latin-1"),
        target=path.decode("latin-1"),
        headers=headers,
        body_bytes=body.size if isinstance(body, Slab) else len(body),
    )


def _body_of(task: Task, request: HttpRequest) -> bytes | None:
    """Return the body, or ``None`` if the memory that it was received in has been given back."""
    body = request.body
    if isinstance(body, bytes):
        return body
    return bytes(task.owner.bodies.content(body)) if task.consumer is None else None
