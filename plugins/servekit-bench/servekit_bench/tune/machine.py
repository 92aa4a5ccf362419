# SPDX-License-Identifier: Apache-2.0
"""The cores and the memory that the servers of a search may use."""

import os
from pathlib import Path
from time import monotonic
from typing import Final

__all__ = ["OtherProcesses", "available_memory", "usable_cores"]

GROUP: Final = Path("/proc/self/cgroup")
CGROUPS: Final = Path("/sys/fs/cgroup")
MEMINFO: Final = Path("/proc/meminfo")
STAT: Final = Path("/proc/stat")
IDLE: Final = (3, 4)  #: columns of ``STAT`` in which nothing runs
TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


def usable_cores() -> int:
    """Return how many cores this process may use, by its affinity and its cgroup."""
    cores = len(os.sched_getaffinity(0))
    for directory in _groups():
        quota, _, period = _text(directory / "cpu.max").partition(" ")
        if quota.isdecimal() and period.isdecimal():
            cores = min(cores, max(1, int(quota) // int(period)))
    return cores


def available_memory() -> int:
    """Return the memory that is still free, in bytes: of the machine, or of a cgroup above us."""
    rows = dict(line.split(":", 1) for line in _text(MEMINFO).splitlines())
    free = [int(rows["MemAvailable"].split()[0]) * 1024]
    for directory in _groups():
        limit, used = (_text(directory / name) for name in ("memory.max", "memory.current"))
        if limit.isdecimal() and used.isdecimal():
            free.append(int(limit) - int(used))
    return max(0, min(free))


class OtherProcesses:
    """Counts the CPU time of processes of the machine that are neither ours nor our children."""

    def __init__(self) -> None:
        self._began = monotonic()
        self._before_s = self._busy_s() - self._own_s()

    def cores(self) -> float:
        """Return how many cores they kept busy until now; children that run count as others."""
        spent_s = self._busy_s() - self._own_s() - self._before_s
        return max(0.0, spent_s) / max(1e-3, monotonic() - self._began)

    def _busy_s(self) -> float:
        """Return the CPU time of all processes: user, nice, system, interrupts."""
        fields = _text(STAT).partition("\n")[0].split()[1:8]
        return sum(int(each) for at, each in enumerate(fields) if at not in IDLE) / TICKS_PER_S

    def _own_s(self) -> float:
        return sum(os.times()[:4])


def _groups() -> list[Path]:
    """Return our cgroup and those above it; none without version 2."""
    paths = [line[3:] for line in _text(GROUP).splitlines() if line.startswith("0::")]
    own = [CGROUPS / each.strip("/") for each in paths]
    return [
        group
        for each in own
        for group in (each, *each.parents)
        if CGROUPS in (group, *group.parents)
    ]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
