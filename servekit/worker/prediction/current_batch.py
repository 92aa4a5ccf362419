# SPDX-License-Identifier: Apache-2.0
"""The batch that a worker answers now, as its service sees it in ``Context.requests``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from servekit.ipc.batches import QUERY, Item
from servekit.ipc.trace_context import TRACEPARENT, trace_id_of
from servekit.service.identity import Identity
from servekit.service.request import Request
from servekit.worker.codecs.media_headers import parse_content_type
from servekit.worker.prediction.objects import DecodedInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from servekit.ipc.cancellation import CancelledReader
    from servekit.worker.prediction.batch_result import PendingTask
    from servekit.worker.prediction.request_reader import BodyReaders

__all__ = ["NO_BATCH", "CurrentBatch", "Items", "OpenItem", "traces_of"]

#: an ``Item`` with its body, which may be a read-only view that ends with the batch
OpenItem = Item[bytes | memoryview | DecodedInput]

#: a batch: its items, its number on its channel, and which of its clients have disconnected
NO_BATCH: tuple[Items, int, CancelledReader | None] = (), 0, None
NO_HEADERS: dict[str, str] = {}


class Items(Protocol):
    """The items of a batch by their places."""

    def __getitem__(self, place: int, /) -> OpenItem:
        """Return the item at *place*."""


def traces_of(several: Iterable[Mapping[str, str]]) -> list[str]:
    """Return the traces that requests with these headers belong to, each once."""
    found = (trace_id_of(headers.get(TRACEPARENT, "")) for headers in several)
    return [*filter(None, dict.fromkeys(found))]


class CurrentBatch:
    """Changes with every batch; a ``Request`` made from it does not."""

    __slots__ = ("batch", "bodies", "tasks")

    def __init__(self, bodies: BodyReaders) -> None:
        """Start without a batch; *bodies* decodes the inputs of requests on demand."""
        self.bodies = bodies
        self.batch = NO_BATCH
        self.tasks: Sequence[PendingTask] = ()  #: whose inputs ``predict`` has now

    def ids(self) -> list[str]:
        """Return the ids of the requests that ``predict`` has now, each once."""
        return list(dict.fromkeys(task.request_id for task in self.tasks))

    def trace_ids(self) -> list[str]:
        """Return the traces that these requests belong to, each once."""
        items = self.batch[0]
        headers = [items[task.place].headers or NO_HEADERS for task in self.tasks]
        return traces_of(headers)

    def requests(self) -> list[Request]:
        """Return the request of each input or row that ``predict`` has now, in their order."""
        made = {place: self.request(place) for place in {task.place for task in self.tasks}}
        return [made[task.place] for task in self.tasks]

    def request(self, place: int) -> Request:
        """Return the request of the item at *place*."""
        items, number, cancelled = self.batch
        item = items[place]
        body, header, headers = item.body, item.content_type, item.headers or NO_HEADERS
        decode = partial(self._decode, header, body)
        if isinstance(body, DecodedInput):
            body, header = body.body, b""
        return Request(
            parse_content_type(header)[0] if header.strip() and b"\0" not in header else "",
            body,
            item.request_id,
            decode,
            item.deadline,
            partial(cancelled.has, number, place) if cancelled else lambda: False,
            {name: text for name, text in headers.items() if not name.startswith(QUERY)},
            {name[1:]: text for name, text in headers.items() if name.startswith(QUERY)},
            Identity(*item.identity) if item.identity is not None else None,
        )

    def _decode(self, header: bytes, body: Any) -> Any:
        reader = self.bodies[header]
        return reader.decode(body if reader.takes_views else bytes(body))
