# SPDX-License-Identifier: Apache-2.0
"""From requests to tasks: a path whose requests are one task each, and what all tasks are made of.

Such a path is that of a model, of an endpoint, or of one stage.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from servekit.errors import ClientError
from servekit.frontend.batching.task import INFINITY, Task
from servekit.frontend.http.fields import TIMEOUT_FIELD, TRACE, milliseconds, picked, with_query
from servekit.ipc.batches import Item
from servekit.ipc.response_style import bare_style
from servekit.ipc.trace_context import TRACEPARENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest
    from servekit.extension.middleware import Middleware
    from servekit.frontend.batching.batcher import Batcher
    from servekit.frontend.batching.task import Consumer, TaskOwner
    from servekit.ipc.batches import Calls, ProtocolCall, SentItem
    from servekit.ipc.response_style import ResponseStyle

__all__ = [
    "Deadlines",
    "TaskRoute",
    "asked_headers",
    "deadlines_of",
    "item_of",
    "make_task",
    "style_for",
]

#: ``monotonic``: of the response, or of a stream's first output; of all of a stream; and why the
#: request is refused, if its client asks for something that is not a number of milliseconds
Deadlines = tuple[float, float, ClientError | None]


class TaskRoute:
    """Replaced with each routing table."""

    call: ProtocolCall | None = None  #: a request that comes here directly has no protocol
    is_provisional = False

    __slots__ = (
        *("_batcher", "_calls", "_style", "_timeout_s"),
        *("asked", "bodies", "metrics", "middleware", "row", "version"),
    )

    def __init__(
        self,
        batcher: Batcher,
        calls: Calls = (),
        middleware: Middleware | None = None,
        style: ResponseStyle | None = None,
    ) -> None:
        """Let workers of *batcher* run *calls*.

        :param middleware: of this route alone.
        :param style: of its responses; protocols have their own.
        """
        self._batcher, self._calls, self._style = batcher, calls, style
        self._timeout_s = batcher.timeout_s
        self.row, self.bodies, self.metrics = batcher.row, batcher.bodies, batcher.metrics
        self.asked: Sequence[str] = batcher.row.asked
        self.middleware = middleware
        self.version = batcher.row.version.encode()

    @property
    def is_changing(self) -> bool:
        """Whether replicas of an older version still answer."""
        return bool(self._batcher.pool.leaving)

    @property
    def has_spare_room(self) -> bool:
        """Whether its queue is less than half full."""
        return self._batcher.queue.has_spare_room

    def begin(
        self, exchange: Exchange, request: HttpRequest, call: ProtocolCall | None = None
    ) -> None:
        """Make a task of *request* and queue it, or respond at once.

        :param call: the protocol of a plugin that the request comes by, if it comes by one.
        """
        headers, now = request.headers, monotonic()
        if TIMEOUT_FIELD in headers:
            deadline, until, refusal = deadlines_of(headers, self._timeout_s, now)
        else:
            deadline, until, refusal = now + self._timeout_s, INFINITY, None
        style = self._style
        if call is not None:
            style = None if call.envelope else bare_style(style)
        item = item_of(request, deadline, self._calls, call, style)
        if self.asked:
            item.headers = asked_headers(request, self.asked)
        elif TRACE in headers:
            item.headers = {TRACEPARENT: headers[TRACE].decode("latin-1")}
        exchange.prediction = task = make_task(self._batcher, exchange, item, now, until)
        if refusal is None:
            self._batcher.admit(task)
        else:
            task.fail(refusal)


def item_of(
    request: HttpRequest,
    deadline: float,
    calls: Calls,
    call: ProtocolCall | None,
    style: ResponseStyle | None,
) -> SentItem:
    """Return what a worker gets of *request*, without the headers that its service asked for.

    :param style: of the route; a protocol has its own.
    """
    headers, body, request_id = request.headers, request.body, request.request_id
    media_type, accept = headers.get(b"content-type", b""), headers.get(b"accept", b"")
    item: SentItem = Item(body, media_type, accept, request_id, deadline, None, calls)
    if call is not None and call.envelope:
        item.protocol = call
    elif style is not None:
        item.style = style
        if style.media_type:
            item.content_type, item.accept = style.fill(media_type, accept)
    if request.identity is not None:
        item.identity = request.identity.name, dict(request.identity.attributes)
    return item


def style_for(style: ResponseStyle | None, call: ProtocolCall | None) -> ResponseStyle | None:
    """Return the style of a response to *call*, or to a request without one.

    :param style: of the route.
    """
    if call is None:
        return style
    return None if call.envelope else bare_style(style)


def asked_headers(request: HttpRequest, asked: Sequence[str]) -> dict[str, str]:
    """Return the headers and query parameters of *request* that services have *asked* for."""
    return picked(with_query(request.headers, request.target), asked)


def deadlines_of(headers: dict[bytes, bytes], timeout_s: float, now: float) -> Deadlines:
    """Return the deadlines of a request that arrived *now* for a model with *timeout_s*."""
    asked = headers.get(TIMEOUT_FIELD)
    if asked is None:
        return now + timeout_s, INFINITY, None
    try:
        asked_s = milliseconds(asked) / 1000
    except ClientError as error:
        return now + timeout_s, INFINITY, error.with_traceback(None)
    return now + min(timeout_s, asked_s), now + asked_s, None


def make_task(
    owner: TaskOwner,
    exchange: Exchange | None,
    item: SentItem,
    arrived: float,
    until: float = INFINITY,
    consumer: Consumer | None = None,
) -> Task:
    """Return the task of *item* for the queue of *owner*; the parameters are as in ``Task``."""
    body = item.body
    size = len(body) if type(body) is bytes else body.size  # type: ignore[union-attr]
    return Task(exchange, owner, item, arrived, item.deadline, size, until, consumer)
