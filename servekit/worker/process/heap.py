# SPDX-License-Identifier: Apache-2.0
"""Limits what the C heap keeps of freed memory: enough for the next batch, nothing while idle.

By default, glibc maps every large block separately, and returns the top of its heap as soon as a
batch has freed its copies. The next batch then pays for the same pages again, fault by fault.
"""

import ctypes
import os
from typing import Final

__all__ = ["Heap"]

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # mallopt(3)
LARGEST_BLOCK: Final = 32 << 20  #: bytes; larger blocks are mapped. The limit of every glibc
KEPT_BYTES: Final = 128 << 20  #: more free memory than this at the top of the heap is returned
QUIET_PINGS: Final = 2  #: a worker that gets so many in a row, and no work, is idle
#: if one of these variables, or a tunable of malloc's, is set, we leave the heap alone
VARIABLES: Final = frozenset({"MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"})
TUNABLES, OF_MALLOC = "GLIBC_TUNABLES", "glibc.malloc."


class Heap:
    """The C heap of this process. A libc other than glibc is left alone."""

    def __init__(self, memory_bytes: int = 0) -> None:
        """Keep freed memory from now on, after the service is loaded.

        :param memory_bytes: limit on the address space, of which we keep a part; 0: no limit.
        """
        libc = ctypes.CDLL(None)
        self._trim = getattr(libc, "malloc_trim", None)
        self._pings = 0
        kept = min(KEPT_BYTES, memory_bytes // 4) if memory_bytes else KEPT_BYTES
        set_option = getattr(libc, "mallopt", None)
        is_chosen = OF_MALLOC in os.environ.get(TUNABLES, "") or not VARIABLES.isdisjoint(
            os.environ
        )
        if set_option and not is_chosen:
            set_option(M_MMAP_THRESHOLD, LARGEST_BLOCK)
            set_option(M_TRIM_THRESHOLD, kept)

    def work(self) -> None:
        """Note that there is work: what it frees is kept."""
        self._pings = 0

    def rest(self) -> None:
        """Note a ping, which front-ends send while there is no work; return memory once idle."""
        self._pings += 1
        if self._pings == QUIET_PINGS and self._trim:
            self._trim(0)
