# SPDX-License-Identifier: Apache-2.0
"""Caches responses of models that enable it (``[cache]``): equal requests get the same one."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from hashlib import sha256
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from msgspec import msgpack

from servekit.extension.http import HttpResponse
from servekit.frontend.http.fields import picked, with_query
from servekit.ipc.table import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest
    from servekit.extension.middleware import Proceed
    from servekit.frontend.exchange.protocols import PredictionRoute
    from servekit.ipc.table import ModelRow

__all__ = ["Caches", "ResponseCache"]

ENTRY_BYTES = 512  #: memory of an entry besides its content
#: with these fields a service declares that a response is for one client, or how long it is valid
PRIVATE = frozenset(("set-cookie", "cache-control", "vary"))


class Entry(NamedTuple):
    """A cached response."""

    kept_at: float  #: ``monotonic``
    fields: tuple[tuple[str, str], ...]
    media_type: str
    body: bytes

    @property
    def size(self) -> int:
        """Memory that it uses, in bytes."""
        fields = sum(len(name) + len(value) for name, value in self.fields)
        return ENTRY_BYTES + fields + len(self.body)


class ResponseCache:
    """Middleware of one version of a model: its responses on one front-end.

    The least recently used go first.
    """

    def __init__(self, max_bytes: int, ttl_s: float) -> None:
        """Keep at most *max_bytes*, and nothing longer than *ttl_s*."""
        self._max_bytes, self._ttl_s = max_bytes, ttl_s
        self._entries: OrderedDict[bytes, Entry] = OrderedDict()
        self._size = 0
        self._epoch: object = None

    def follow(self, epoch: object) -> None:
        """Clear the cache if *epoch*, the version and the workers of the model, has changed."""
        if epoch != self._epoch:
            self._epoch = epoch
            self._entries.clear()
            self._size = 0

    def __call__(self, exchange: Exchange, request: HttpRequest, proceed: Proceed) -> None:
        """Respond to *request* from the cache, or have its response cached."""
        route: PredictionRoute = request.route
        if route.is_changing:  # during a reload either version may answer
            proceed(exchange, request)
            return
        key = _key(request, route)
        entry = self._entries.get(key)
        if entry is None or monotonic() - entry.kept_at > self._ttl_s:
            route.metrics.count_cached("miss")
            exchange.add_filter(partial(self._keep, key, self._epoch))
            proceed(exchange, request)
            return
        self._entries.move_to_end(key)
        route.metrics.count_cached("hit")
        request.discard()
        fields = (*entry.fields, ("X-Cache", "hit"))
        exchange.respond(
            HttpResponse(200, entry.body, entry.media_type, request.request_id, fields=fields)
        )

    def _keep(self, key: bytes, epoch: object, response: HttpResponse) -> HttpResponse:
        """Add *response* to the cache if that is allowed, and mark it."""
        if response.error is not None or response.is_streamed:
            return response
        is_shared = PRIVATE.isdisjoint(name.lower() for name, _ in response.fields)
        if response.status == 200 and epoch == self._epoch and is_shared:
            fields, body = tuple(response.fields), bytes(response.body)
            self._add(key, Entry(monotonic(), fields, response.media_type, body))
        response.fields = [*response.fields, ("X-Cache", "miss")]
        return response

    def _add(self, key: bytes, entry: Entry) -> None:
        if entry.size > self._max_bytes:
            return
        old = self._entries.pop(key, None)
        self._size += entry.size - (old.size if old else 0)
        self._entries[key] = entry
        while self._size > self._max_bytes:
            self._size -= self._entries.popitem(last=False)[1].size


def _key(request: HttpRequest, route: PredictionRoute) -> bytes:
    """Return the digest of everything that the response depends on."""
    headers, asked, identity = request.headers, route.asked, request.identity
    told = picked(with_query(headers, request.target), asked) if asked else {}
    digest = sha256()
    for part in (
        request.target.partition(b"?")[0],
        headers.get(b"content-type", b""),
        headers.get(b"accept", b""),
        b"" if route.call is None else msgpack.encode(route.call),
        b"" if identity is None else msgpack.encode((identity.name, dict(identity.attributes))),
        *(told[name].encode() if name in told else b"\0" for name in asked),
        msgpack.encode(sorted(told.items())) if EVERYTHING in asked else b"",
    ):
        digest.update(b"%d:%b" % (len(part), part))
    digest.update(request.content)
    return digest.digest()


class Caches:
    """The caches of all versions of models of a front-end."""

    def __init__(self) -> None:
        #: by model and version, with what it asks for
        self._caches: dict[tuple[str, str], tuple[Any, ResponseCache]] = {}

    def find(self, row: ModelRow) -> ResponseCache | None:
        """Return the cache of the version *row*, if it has one."""
        return self._caches.get((row.name, row.version), (None, None))[1]

    def update(self, rows: Iterable[ModelRow]) -> None:
        """Follow a new routing table, which has *rows* of all versions."""
        known, self._caches = self._caches, {}
        for row in rows:
            name = row.name, row.version
            if asked := row.manifest.get("cache"):
                before, cache = known.get(name, (None, None))
                if cache is None or before != asked:
                    cache = ResponseCache(asked["max_bytes"], asked["ttl_s"])
                replicas = [(each.index, each.generation) for each in row.replicas]
                cache.follow((row.version, replicas))
                self._caches[name] = asked, cache
