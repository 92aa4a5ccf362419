# SPDX-License-Identifier: Apache-2.0
"""Requests that killed a worker, remembered for a while by what they said."""

from __future__ import annotations

from hashlib import sha256

__all__ = ["MAX_CULPRITS", "REMEMBERED_S", "Culprits"]

REMEMBERED_S = 600.0
MAX_CULPRITS = 1024


class Culprits:
    """Of one model. Nothing is hashed unless the size of a body is that of a culprit's."""

    __slots__ = ("_until", "sizes")

    def __init__(self) -> None:
        self._until: dict[tuple[int, bytes], float] = {}  #: oldest first
        self.sizes: frozenset[int] = frozenset()  #: of their bodies; empty where there are none

    def remember(self, content_type: bytes, body: bytes | memoryview, now: float) -> None:
        """A worker died of this, at *now*."""
        key = _key(content_type, body)
        self._until.pop(key, None)
        self._until[key] = now + REMEMBERED_S
        if len(self._until) > MAX_CULPRITS:
            del self._until[next(iter(self._until))]
        self._note_sizes()

    def knows(self, content_type: bytes, body: bytes | memoryview, now: float) -> bool:
        """Whether a worker died of this not long ago."""
        return self._until.get(_key(content_type, body), now) > now

    def forget(self, now: float) -> None:
        """Drop those whose time is over."""
        over = [key for key, until in self._until.items() if until <= now]
        for key in over:
            del self._until[key]
        if over:
            self._note_sizes()

    def _note_sizes(self) -> None:
        self.sizes = frozenset(size for size, _ in self._until)


def _key(content_type: bytes, body: bytes | memoryview) -> tuple[int, bytes]:
    digest = sha256(b"%d:%b" % (len(content_type), content_type))
    digest.update(body)
    return len(body), digest.digest()
