# SPDX-License-Identifier: Apache-2.0
"""The limits of this process: cores, memory and descriptors."""

import os
import resource
from contextlib import suppress
from pathlib import Path

from servekit.system.cgroups import cpu_quota, memory_groups, table

__all__ = ["available_bytes", "private_bytes", "raise_descriptor_limit", "usable_cores"]

PAGE = resource.getpagesize()
MAX_DESCRIPTORS = 1 << 20  #: some programs close every number up to the limit before they exec


def usable_cores() -> int:
    """Return how many cores this process may use: its affinity, or less by the cgroup's quota."""
    cores, quota = len(os.sched_getaffinity(0)), cpu_quota()
    return cores if quota is None else max(1, min(cores, round(quota)))


def available_bytes(root: Path = Path("/")) -> int | None:
    """Return how much memory can be taken without swapping; ``None`` if the kernel does not say.

    The tightest limit counts: that of the machine or of a control group that holds us.

    :param root: the directory that holds ``proc`` and ``sys``; tests use another one.
    """
    kib = table(root / "proc/meminfo").get("MemAvailable:")
    known = [] if kib is None else [kib * 1024]
    known += [max(0, group.limit - group.used) for group in memory_groups(root)]
    return min(known, default=None)


def private_bytes(pid: int) -> int:
    """Return the private resident memory of a process; 0 if it is gone.

    Pages of files that it maps, such as weights, do not count: other processes may share them.
    """
    try:
        fields = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
    except OSError:
        return 0
    return (int(fields[1]) - int(fields[2])) * PAGE


def raise_descriptor_limit() -> int:
    """Raise the soft limit to the hard one, at most ``MAX_DESCRIPTORS``, and return it.

    The soft limit is 1024 almost everywhere, for programs that use ``select``. Each connection
    takes a descriptor, and each worker several. The front-ends inherit the limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # some sandboxes refuse; then the limit stays
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
    return soft
