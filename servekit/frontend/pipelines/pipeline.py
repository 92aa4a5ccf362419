# SPDX-License-Identifier: Apache-2.0
"""A route of several steps: which batcher each of them has, and what it gets from which."""

from __future__ import annotations

from bisect import bisect_left
from time import monotonic
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from servekit.errors import NotSupported, QueueFull, ServekitError
from servekit.frontend.batching.deadlines import deadlines_of
from servekit.frontend.http.fields import with_query
from servekit.frontend.metrics import counters as metrics
from servekit.frontend.pipelines.run import Flow
from servekit.ipc.batches import VALUE, VALUES, Item

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest
    from servekit.extension.middleware import Middleware
    from servekit.frontend.batching.batcher import Batcher
    from servekit.frontend.batching.replica import Replica
    from servekit.frontend.memory.body_arena import Bodies
    from servekit.frontend.metrics.counters import ModelMetrics
    from servekit.frontend.pipelines.run import Value
    from servekit.ipc.batches import Calls, ProtocolCall, SentItem
    from servekit.ipc.table import ModelRow

__all__ = ["REQUEST", "Pipeline", "Place"]

REQUEST = -1  #: in the place of an earlier step: what the client sent


class Place(Struct, eq=False):
    """One step of a pipeline."""

    label: str  #: "" for a step of our own, between two of the author's
    batcher: Any  #: a ``Batcher``
    sources: list[int]  #: earlier places whose outputs it gets
    names: list[str]  #: of them, if its input is a mapping
    is_each: bool = False  #: its input is a list, and each element a task
    calls: Calls = ()  #: that its worker runs; none: ``predict`` of the service
    accept: bytes = b""  #: what its output is written as; "" is up to the client
    followers: list[int] = []  #: later places that get its output

    def takes(self, value: Value) -> bool:
        """Whether *value* can be cut up, or be put together with others, where that is to be.

        What a service wrote as a content type of its own is for others to read, as a whole.
        """
        if self.is_each:
            return value.content_type == VALUES.encode()
        return not self.names or value.content_type in (VALUE.encode(), VALUES.encode())


class Pipeline:
    """Answers at one path; made anew with each routing table."""

    call: ProtocolCall | None = None  #: a request that comes here directly has no protocol

    def __init__(
        self,
        row: ModelRow,
        places: Sequence[Place],
        metrics: ModelMetrics,
        *,
        large_body: int,
        loop: Any,
    ) -> None:
        """Lead through *places*; the output of the last one is the answer.

        :param metrics: of the model as a whole.
        :param large_body: values of so many bytes go by shared memory.
        """
        self.row = row
        self.places = places
        self.metrics = metrics
        self.large_body = large_body
        self.loop = loop
        batchers: list[Batcher] = [place.batcher for place in places]
        self._batchers = list(dict.fromkeys(batchers))
        self.middleware: Middleware | None = None  #: of its route alone
        self.is_of_one_model = {batcher.row.name for batcher in batchers} == {row.name}
        self.bodies: Bodies = batchers[0].bodies  #: where large bodies are received
        self.first = [at for at, place in enumerate(places) if set(place.sources) == {REQUEST}]
        self.predict_timeout_s = sum(batcher.predict_timeout_s for batcher in batchers)
        for at, place in enumerate(places):
            for source in dict.fromkeys(place.sources):
                if source != REQUEST:
                    places[source].followers = [*places[source].followers, at]
        for place in places[:-1]:
            is_cut = any(places[at].is_each for at in place.followers)
            place.accept = (VALUES if is_cut and not place.is_each else VALUE).encode()

    @property
    def asked(self) -> list[str]:
        """Headers that its services want to see."""
        return sorted({name for batcher in self._batchers for name in batcher.asked})

    @property
    def leaving(self) -> list[Replica]:
        """Replicas of an older version that still answer."""
        return [replica for batcher in self._batchers for replica in batcher.leaving]

    def begin(
        self, exchange: Exchange, request: HttpRequest, call: ProtocolCall | None = None
    ) -> None:
        """Start the run of *request*, or respond at once."""
        now, headers = monotonic(), request.headers
        deadline, until, malformed = deadlines_of(headers, self.predict_timeout_s, now)
        refusal: ServekitError | None = malformed
        media_type, accept = headers.get(b"content-type", b""), headers.get(b"accept", b"")
        item = Item(request.body, media_type, accept, request.request_id, deadline)
        if call is not None:
            item.protocol = call
            refusal = refusal or self._refusal_of_protocol()
        if request.identity is not None:
            item.identity = request.identity.name, dict(request.identity.attributes)
        self.start(exchange, item, with_query(headers, request.target), now, until, refusal)

    def start(
        self,
        exchange: Exchange,
        item: SentItem,
        headers: dict[bytes, bytes],
        now: float,
        until: float,
        refusal: ServekitError | None,
    ) -> None:
        """Lead *item* through the steps, or respond at once.

        :param refusal: why it cannot be taken, if that is known already.
        """
        exchange.prediction = flow = Flow(self, exchange, item, headers, now, until)
        refusal = refusal or self.refusal(flow.body_bytes)
        if refusal is not None:
            flow.fail(refusal)
        else:
            flow.begin()

    def _refusal_of_protocol(self) -> ServekitError | None:
        if len(self.places) > 1 or self.places[0].is_each:
            return NotSupported("a model with several steps has no such route")
        self.places[0].batcher.has_protocols = True
        return None

    def hold(self, flows: int) -> None:
        """Count *flows* more that need every one of its stages until their end."""
        for batcher in self._batchers:
            batcher.flows += flows

    def count(self, status: int, duration_s: float) -> None:
        """Count an answer that the last step gave."""
        counters = self.metrics.values
        counters[metrics.REQUESTS + bisect_left(metrics.DURATIONS, duration_s)] += 1
        counters[metrics.REQUESTS_SUM] += duration_s
        counters[metrics.PLACES.get(status, metrics.OTHER_STATUS)] += 1

    def count_failure(self, status: int) -> None:
        """Count an answer that is a problem."""
        self.metrics.count_status(status)

    def refusal(self, body_bytes: int) -> ServekitError | None:
        """Return why no request can be taken now: what one step lacks, all the others wait for."""
        for batcher in self._batchers:
            if not batcher.is_open:
                return batcher.not_ready()
            if not batcher.queue.has_room(body_bytes):
                wait_s = batcher.rate.seconds_for(batcher.waiting, monotonic())
                return QueueFull(retry_after_s=wait_s)
        return None
