# SPDX-License-Identifier: Apache-2.0
"""How much memory is left: on this machine, or in the control groups that hold us."""

from pathlib import Path

from servekit.system.cgroups import memory_groups, table

__all__ = ["available_bytes"]


def available_bytes(root: Path = Path("/")) -> int | None:
    """Return what can be taken without swapping, by the tightest limit; ``None`` if untold.

    :param root: what ``proc`` and ``sys`` are under; another one in tests.
    """
    kib = table(root / "proc/meminfo").get("MemAvailable:")
    known = [] if kib is None else [kib * 1024]
    known += [max(0, group.limit - group.used) for group in memory_groups(root)]
    return min(known, default=None)
