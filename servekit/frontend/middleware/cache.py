# SPDX-License-Identifier: Apache-2.0
"""Answers kept for requests that say the same, for models that ask for it (``[cache]``)."""

from __future__ import annotations

import re
from collections import OrderedDict
from functools import partial
from hashlib import sha256
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from servekit.frontend.http.fields import picked, with_query
from servekit.ipc.batches import Slab

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from servekit.frontend.batching.batcher import Batcher
    from servekit.frontend.exchange.protocols import Asker
    from servekit.frontend.http.request_builder import HttpRequest
    from servekit.frontend.pipelines.pipeline import Pipeline
    from servekit.ipc.table import ModelRow

__all__ = ["AnswerCache", "Caches"]

ENTRY_BYTES = 512  #: what an entry costs besides its bytes
LENGTH = b"Content-Length: "
#: of an answer that may be kept: what comes before its ``Date``, and its content type
OK_HEAD = re.compile(
    rb"(HTTP/1\.1 200 [^\r]*\r\n(?:[^\r]+\r\n)*?)Date: [^\r]*\r\n(Content-Type: [^\r]*\r\n)"
)
#: with them a service says that an answer is for one client, or how long it is good
OF_ITS_OWN = re.compile(rb"\r\n(?:set-cookie|cache-control|vary):", re.IGNORECASE)


class Entry(NamedTuple):
    """One answer."""

    kept_at: float  #: ``monotonic``
    start: bytes  #: the status line, and headers that the service gave
    content_type: bytes  #: a header line
    body: bytes

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return ENTRY_BYTES + len(self.start) + len(self.body)


class AnswerCache:
    """The answers of one model on one front-end; the ones used longest ago go first."""

    def __init__(self, max_bytes: int, ttl_s: float) -> None:
        """Keep at most *max_bytes*, and nothing longer than *ttl_s*."""
        self._max_bytes, self._ttl_s = max_bytes, ttl_s
        self._entries: OrderedDict[bytes, Entry] = OrderedDict()
        self._size = 0
        self._epoch: object = None

    def follow(self, epoch: object) -> None:
        """Forget everything unless *epoch*, what answers now, is the one of before."""
        if epoch != self._epoch:
            self._epoch = epoch
            self._entries.clear()
            self._size = 0

    def answers(
        self,
        connection: Asker,
        request: HttpRequest,
        batcher: Batcher | Pipeline,
        request_id: str,
    ) -> bool:
        """Answer *request* if it is known; else see that its answer will be kept."""
        if batcher.leaving:  # which of two versions answers is not known
            return False
        key = _key(request, batcher)
        entry = self._entries.get(key)
        if entry is None or monotonic() - entry.kept_at > self._ttl_s:
            batcher.metrics.count_cached("miss")
            connection.keep = partial(self._keep, key, self._epoch)
            return False
        self._entries.move_to_end(key)
        batcher.metrics.count_cached("hit")
        if isinstance(request.body, Slab):
            batcher.bodies.free(request.body)
        head = b"%bX-Request-Id: %b\r\nX-Cache: hit\r\nContent-Length: %d\r\n" % (
            b"%b%b%b" % (entry.start, connection.front_end.heads.date, entry.content_type),
            request_id.encode("latin-1"),
            len(entry.body),
        )
        connection.answer(head, entry.body)
        return True

    def _keep(self, key: bytes, epoch: object, head: bytes, body: bytes | memoryview) -> bytes:
        """Keep an answer if it may be; return *head* with a word about it."""
        found = OK_HEAD.match(head)
        if found and epoch == self._epoch and not OF_ITS_OWN.search(found[1]):
            self._add(key, Entry(monotonic(), found[1], found[2], bytes(body)))
        at = head.rindex(LENGTH)
        return b"%bX-Cache: miss\r\n%b" % (head[:at], head[at:])

    def _add(self, key: bytes, entry: Entry) -> None:
        if entry.size > self._max_bytes:
            return
        old = self._entries.pop(key, None)
        self._size += entry.size - (old.size if old else 0)
        self._entries[key] = entry
        while self._size > self._max_bytes:
            self._size -= self._entries.popitem(last=False)[1].size


def _key(request: HttpRequest, batcher: Batcher | Pipeline) -> bytes:
    """Return the digest of all that an answer depends on."""
    headers, body = request.headers, request.body
    told = picked(with_query(headers, request.target), batcher.asked) if batcher.asked else {}
    digest = sha256()
    for part in (
        request.target.partition(b"?")[0],
        headers.get(b"content-type", b""),
        headers.get(b"accept", b""),
        *(told[name].encode() if name in told else b"\0" for name in batcher.asked),
    ):
        digest.update(b"%d:%b" % (len(part), part))
    digest.update(batcher.bodies.content(body))
    return digest.digest()


class Caches:
    """Those that the models of a front-end ask for."""

    def __init__(self) -> None:
        self._caches: dict[str, tuple[Any, AnswerCache]] = {}  #: by model, with what it asks for

    def find(self, model: str) -> AnswerCache | None:
        """Return the cache of *model*, if it asks for one."""
        return self._caches[model][1] if model in self._caches else None

    def update(self, rows: Mapping[str, ModelRow]) -> None:
        """Take over what the routing table says now."""
        known, self._caches = self._caches, {}
        for name, row in rows.items():
            if asked := row.manifest.get("cache"):
                before, cache = known.get(name, (None, None))
                if cache is None or before != asked:
                    cache = AnswerCache(asked["max_bytes"], asked["ttl_s"])
                replicas = [(each.index, each.generation) for each in row.replicas]
                cache.follow((row.version, replicas))
                self._caches[name] = asked, cache
