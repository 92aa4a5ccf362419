# SPDX-License-Identifier: Apache-2.0
"""The limit on open descriptors; the front-ends inherit it from the supervisor."""

import resource
from contextlib import suppress

__all__ = ["raise_descriptor_limit"]

MOST = 1 << 20  #: some programs close every number up to the limit when they start another


def raise_descriptor_limit() -> int:
    """Raise the soft limit to the hard one, or to ``MOST``; return it.

    The soft limit is 1024 almost everywhere, for the sake of ``select``. A connection
    takes a descriptor, and so do the sockets and pipes of a worker.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # some sandboxes refuse; then it stays as it is
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
    return soft
