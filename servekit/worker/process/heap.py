# SPDX-License-Identifier: Apache-2.0
"""How much freed memory the C heap keeps: enough for the next batch, and nothing while idle.

By default glibc maps every large block anew, and gives the top of its heap back as soon as a
batch has freed its copies: the next batch pays for the same pages again, fault by fault.
"""

import ctypes
import os
from typing import Final

__all__ = ["Heap"]

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # mallopt(3)
LARGEST_BLOCK: Final = 32 << 20  #: bytes; larger ones are mapped. The most that every glibc takes
KEPT_BYTES: Final = 128 << 20  #: a free top of the heap larger than this is given back at once
QUIET_PINGS: Final = 2  #: a worker that gets so many in a row, and no work, is idle
#: whoever sets one of these for the worker has chosen, or a tunable of malloc's
VARIABLES: Final = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")
TUNABLES, OF_MALLOC = "GLIBC_TUNABLES", "glibc.malloc."


class Heap:
    """The C heap of this process. Another libc than glibc manages its own alone."""

    def __init__(self, memory_bytes: int = 0) -> None:
        """Keep freed memory from now on: what was loaded is where it is.

        :param memory_bytes: limit on the address space, of which we keep a part; 0: no limit.
        """
        libc = ctypes.CDLL(None)
        self._trim = getattr(libc, "malloc_trim", None)
        self._pings = 0
        kept = min(KEPT_BYTES, memory_bytes // 4) if memory_bytes else KEPT_BYTES
        set_option = getattr(libc, "mallopt", None)
        if set_option and not _is_chosen():
            set_option(M_MMAP_THRESHOLD, LARGEST_BLOCK)
            set_option(M_TRIM_THRESHOLD, kept)

    def work(self) -> None:
        """There is work: keep what it frees."""
        self._pings = 0

    def rest(self) -> None:
        """A front-end asks whether we live, since it has no work; give memory back once idle."""
        self._pings += 1
        if self._pings == QUIET_PINGS and self._trim:
            self._trim(0)


def _is_chosen() -> bool:
    tunables = os.environ.get(TUNABLES, "")
    return OF_MALLOC in tunables or any(name in os.environ for name in VARIABLES)
