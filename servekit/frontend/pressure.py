# SPDX-License-Identifier: Apache-2.0
"""How near this process is to the memory it may have."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from servekit.cgroup import memory_groups

__all__ = ["Pressure"]

HIGH = 0.85  #: of the limit: take no connection
FULL = 0.95  #: of the limit: take no request
PAGE = os.sysconf("SC_PAGE_SIZE")
TRIM_S = 1.0


class Pressure:
    """Compares the resident memory with a limit; asked at every sweep."""

    def __init__(self, limit: int) -> None:
        """Keep to *limit* bytes; 0 takes that of our control group, if there is one."""
        self._limit = limit or min((group.limit for group in memory_groups()), default=0)
        self._trim_at = 0.0
        self.is_high = False
        self.is_full = False

    def measure(self, now: float) -> None:
        """Look at the resident memory."""
        if not self._limit:
            return
        share = resident() / self._limit
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
