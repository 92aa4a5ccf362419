# SPDX-License-Identifier: Apache-2.0
"""One request of several instances on its way: each is a flow, and has its place in the answer."""

from __future__ import annotations

from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final, cast

from msgspec import json

from servekit.errors import InputError, WorkerLost, problem_of
from servekit.extension.http import HttpResponse
from servekit.frontend.pipelines import values
from servekit.frontend.pipelines.run import Flow
from servekit.ipc.batches import VALUE, VALUES, Item
from servekit.ipc.channel import ChannelClosed

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.errors import ServekitError
    from servekit.extension.exchange import Exchange
    from servekit.frontend.pipelines.instances import Instances
    from servekit.ipc.batches import SentItem

__all__ = ["Whole"]

JSON: Final = "application/json"
MULTI_STATUS: Final = 207  #: some instances were refused


class Whole:
    """One request on its way: a task to its connection, and a connection to its flows."""

    __slots__ = (
        "_answers",
        "_arrived",
        "_exchange",
        "_flows",
        "_has_failed",
        "_headers",
        "_is_done",
        "_item",
        "_missing",
        "_route",
        "_until",
    )

    def __init__(
        self,
        route: Instances,
        exchange: Exchange,
        item: SentItem,
        headers: dict[bytes, bytes],
        arrived: float,
        until: float,
    ) -> None:
        self._route, self._exchange, self._until = route, exchange, until
        self._item, self._headers, self._arrived = item, headers, arrived
        self._flows: list[Flow] = []
        self._answers: list[bytes] = []
        self._missing = 0
        self._has_failed = self._is_done = False

    # ------------------------------------------------------------ what the connection asks

    @property
    def is_sent(self) -> bool:
        """No: what a worker has is no answer yet, so a client that ends is taken for gone."""
        return False

    def cancel(self) -> None:
        """The client has gone: nobody needs to go on with any of it."""
        self._is_done = True
        for flow in self._flows:
            flow.cancel()

    # ------------------------------------------------------------ what the reading flow finds

    def begin(self, refusal: ServekitError | None) -> None:
        """Have the body read.

        :param refusal: why it cannot be taken, if that is known already.
        """
        sent = self._item
        item: SentItem = Item(
            sent.body, sent.content_type, VALUES.encode(), sent.request_id, sent.deadline
        )
        flow = Flow(
            self._route,
            cast("Exchange", self),
            item,
            self._headers,
            self._arrived,
            self._until,
        )
        self._flows = [flow]
        refusal = refusal or self._route.refusal(flow.body_bytes) or self._route.each.refusal(0)
        if refusal is not None:
            flow.fail(refusal)
        else:
            flow.begin()

    def respond(self, response: HttpResponse) -> None:
        """Start each of the instances that the body holds.

        :raises ChannelClosed: the worker did not write a list.
        """
        try:
            parts = [bytes(part) for part in values.split(response.body)]
        except ChannelClosed:
            self.fail(WorkerLost(), self._item.request_id)
            raise
        finally:
            response.discard()
        if self._is_done:
            return
        limit = self._route.each.places[0].batcher.queue.capacity
        if len(parts) > limit:
            refusal = InputError(f"instances: {len(parts)} of them, limit {limit}")
            self._route.count_failure(refusal.status)
            self.fail(refusal, self._item.request_id)
            return
        self._start(parts)

    def fail(self, error: ServekitError, request_id: str) -> None:
        """There are no instances: *error* is the answer."""
        if not self._is_done:
            self._is_done = True
            self._exchange.fail(error, request_id)

    # ------------------------------------------------------------ each by itself

    def _start(self, parts: list[bytes]) -> None:
        request_id, deadline = self._item.request_id, self._item.deadline
        self._answers = [b""] * len(parts)
        self._missing = len(parts)
        now, each = monotonic(), self._route.each
        self._flows = []
        for at, part in enumerate(parts):
            item: SentItem = Item(part, VALUE.encode(), JSON.encode(), request_id, deadline)
            flow = Flow(
                each,
                cast("Exchange", Instance(partial(self._take, at))),
                item,
                self._headers,
                now,
                self._until,
            )
            self._flows.append(flow)
            if (refusal := each.refusal(len(part))) is not None:
                flow.fail(refusal)
            else:
                flow.begin()
        if not parts:
            self._finish()

    def _take(self, at: int, answer: bytes, is_error: bool) -> None:
        self._answers[at] = answer
        self._has_failed |= is_error
        self._missing -= 1
        if not self._missing and not self._is_done:
            self._finish()

    def _finish(self) -> None:
        self._is_done = True
        route, status = self._route, MULTI_STATUS if self._has_failed else 200
        body = b'{"predictions":[%b]}' % b",".join(self._answers)
        duration_s = monotonic() - self._arrived
        route.count_whole(status, duration_s)
        timing = b"total;dur=%.3f" % (duration_s * 1e3)
        self._exchange.respond(HttpResponse(status, body, JSON, self._item.request_id, timing))


class Instance:
    """Stands in for the exchange of one instance."""

    def __init__(self, take: Callable[[bytes, bool], None]) -> None:
        self._take = take

    def respond(self, response: HttpResponse) -> None:
        """Take what the last step gave, in JSON."""
        answer = bytes(response.body)
        response.discard()
        self._take(answer, False)

    def fail(self, error: ServekitError, request_id: str) -> None:
        """Take what was wrong with this instance."""
        members = problem_of(error, request_id)
        self._take(json.encode({"error": members}), True)
