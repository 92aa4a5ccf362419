# SPDX-License-Identifier: Apache-2.0
"""How much memory this process holds for its clients, and whether there is room for more.

What is held is counted byte by byte where it is taken and given back: bodies under way,
waiting, or with a worker, and answers that their clients have not taken. What the process
takes as a whole is measured at every sweep. Both are held to one limit.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from time import monotonic

from servekit.frontend.memory.shedding import Shedder
from servekit.system.cgroups import memory_groups

__all__ = ["Pressure"]

HIGH = 0.85  #: of the limit: nothing large is taken any more, and what is idle is let go of
FULL = 0.95  #: of the limit: no prediction is taken
BODIES = 0.6  #: part of what clients may take that is for bodies; the rest is for answers
PAGE = os.sysconf("SC_PAGE_SIZE")
TRIM_S = 1.0
STALL_S = 0.25  #: how long workers wait for clients to take answers; then large ones are refused


class Pressure:
    """Counts what is held, and compares it and the resident memory with a limit."""

    def __init__(self, limit: int, patience_s: float) -> None:
        """Keep to *limit* bytes; 0 takes that of our control group, if there is one.

        :param patience_s: that clients wait for memory which others hold.
        """
        self.shedder = Shedder(patience_s)
        self._limit = limit or min((group.limit for group in memory_groups()), default=0)
        self._trim_at = 0.0
        self._resident = resident() if self._limit else 0
        self._for_clients = max(0, int(self._limit * HIGH) - self._resident)
        self.bodies = 0  #: bytes of bodies, whole or under way
        self._answers = 0  #: bytes of answers that their clients have not taken
        self.is_stalled = False  #: too many answers wait for their clients
        self._patience_until = 0.0  #: ``monotonic``: until then no worker is asked for more
        self.is_high = False
        self.is_full = False

    def has_room(self, size: int) -> bool:
        """Whether *size* bytes more of a body may be taken."""
        return not self._limit or (
            self.bodies + size <= self._for_clients * BODIES
            and self._resident + size <= self._limit * HIGH
        )

    def hold_answers(self, size: int) -> None:
        """Count *size* bytes of answers more that their clients have not taken."""
        self._answers += size
        is_stalled = self._excess > 0
        if is_stalled and not self.is_stalled:
            self._patience_until = monotonic() + STALL_S
        self.is_stalled = is_stalled

    def is_waiting(self, now: float) -> bool:
        """Whether no worker is to be asked for more, as the answers that wait may soon be gone."""
        return self.is_stalled and now < self._patience_until

    def refuses_answer(self, now: float) -> bool:
        """Whether a large answer is given up: those that wait have not gone in time."""
        return self.is_stalled and now >= self._patience_until

    @property
    def _excess(self) -> int:
        """Bytes of answers that are to be taken before any worker is asked for more."""
        return int(self._answers - self._for_clients * (1 - BODIES)) if self._limit else 0

    def sweep(self, now: float) -> None:
        """Look at the resident memory, and end answers that nobody takes if there are too many."""
        self.shedder.look(now)
        if not self._limit:
            return
        if self.is_stalled:
            self.shedder.shed(self._excess, lambda holder: holder.bodies is None)
        self._resident = resident()
        share = self._resident / self._limit
        self.is_high, self.is_full = share > HIGH, share > FULL
        if self.is_high and now >= self._trim_at:
            self._trim_at = now + TRIM_S
            trim()


def resident() -> int:
    """Return the bytes of this process that are in memory, shared ones too."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE


def trim() -> None:
    """Give back what the C library keeps of what was freed; only glibc can."""
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)
