# SPDX-License-Identifier: Apache-2.0
"""How much memory this process holds for its clients, and whether there is room for more.

Large bodies that are received, that wait or that a worker has, requests that have arrived in part,
and responses that clients have yet to read, are counted byte by byte. The memory of the whole
process is measured at every sweep. One limit holds for all.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from threading import Lock
from time import monotonic

from servekit.frontend.memory.shedding import Shedder
from servekit.system.cgroups import memory_groups

__all__ = ["Pressure", "QueueMemory"]

HIGH = 0.85  #: share of the limit: no more large bodies, and idle memory is given back
FULL = 0.95  #: of the limit: no more predictions
BODIES = 0.6  #: share of the bodies in what clients may take; the rest is for responses
ARRIVING = 0.15  #: share of small requests that have arrived in part; slow ones end from half of it
PAGE = os.sysconf("SC_PAGE_SIZE")
TRIM_S = 1.0
STALL_S = 0.25  #: how long workers wait for clients to read; then large responses are refused


class QueueMemory:
    """The memory that waiting bodies may still take in a front-end; shared by its models."""

    __slots__ = ("free",)

    def __init__(self, limit: int) -> None:
        """Let bodies of *limit* bytes wait."""
        self.free = limit


class Pressure:
    """Compares what is held, and the resident memory, with a limit."""

    def __init__(self, limit: int, patience_s: float) -> None:
        """Keep to *limit* bytes; 0 takes the limit of our control group, if there is one.

        :param patience_s: the longest that clients wait for memory that others hold.
        """
        self.shedder = Shedder(patience_s)
        self._limit = limit or min((group.limit for group in memory_groups()), default=0)
        self._trim_at = 0.0
        self._resident = resident() if self._limit else 0
        self._for_clients = max(0, int(self._limit * HIGH) - self._resident)
        self.bodies = 0  #: bytes of large bodies, whole or not
        self.arriving = 0  #: bytes of other requests that have arrived in part
        self._inflated = 0  #: bytes of bodies that are decompressed at present
        self._lock = Lock()  #: for ``_inflated``: threads decompress
        self._answers = 0  #: bytes of responses that clients have yet to read
        self.is_stalled = False  #: too many responses wait for their clients
        self._patience_until = 0.0  #: ``monotonic``: no worker gets a batch until then
        self.is_high = False
        self.is_full = False

    def has_room(self, size: int) -> bool:
        """Whether a body may take *size* more bytes."""
        return not self._limit or (
            self.bodies + self._inflated + size <= self._for_clients * BODIES
            and self._resident + size <= self._limit * HIGH
        )

    def has_room_for_parts(self, size: int) -> bool:
        """Whether requests that have arrived in part may take *size* more bytes.

        They have a share for themselves, so that large bodies do not crowd them out.
        """
        return not self._limit or (
            self.arriving + size <= self._for_clients * ARRIVING
            and self._resident + size <= self._limit * FULL
        )

    def hold_inflated(self, size: int) -> bool:
        """Count *size* more bytes of a body that is decompressed, if there is room. In any thread.

        :param size: if it is negative, so many are counted no longer.
        :return: whether they are counted.
        """
        with self._lock:
            if size > 0 and not self.has_room(size):
                return False
            self._inflated += size
            return True

    def hold_answers(self, size: int) -> None:
        """Count *size* more bytes of responses that clients have yet to read."""
        self._answers += size
        is_stalled = self._excess > 0
        if is_stalled and not self.is_stalled:
            self._patience_until = monotonic() + STALL_S
        self.is_stalled = is_stalled

    def is_waiting(self, now: float) -> bool:
        """Whether workers get no batches, since clients may soon have read their responses."""
        return self.is_stalled and now < self._patience_until

    def refuses_answer(self, now: float) -> bool:
        """Whether a large response is refused: clients have not read the others in time."""
        return self.is_stalled and now >= self._patience_until

    @property
    def _excess(self) -> int:
        """Bytes of responses that have to be read before any worker gets a batch."""
        return int(self._answers - self._for_clients * (1 - BODIES)) if self._limit else 0

    def sweep(self, now: float) -> None:
        """Measure the resident memory; if clients hold too much, end those that are too slow."""
        self.shedder.look(now)
        if not self._limit:
            return
        if self.is_stalled:
            self.shedder.shed(self._excess, lambda holder: holder.bodies is None)
        surplus = int(self.arriving - self._for_clients * ARRIVING / 2)
        self.shedder.shed(surplus, lambda holder: holder.bodies is self)
        self._resident = resident()
        self.shedder.shed(int(self._resident - self._limit * HIGH), lambda _: True)
        share = self._resident / self._limit
        self.is_high, self.is_full = share > HIGH, share > FULL
        if self.is_high and now >= self._trim_at:
            self._trim_at = now + TRIM_S
            trim()


def resident() -> int:
    """Return the bytes of this process that are in memory, shared memory included."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE


def trim() -> None:
    """Give freed memory that the C library keeps back to the system; only glibc can."""
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)
