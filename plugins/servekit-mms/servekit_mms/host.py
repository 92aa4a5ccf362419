# SPDX-License-Identifier: Apache-2.0
"""CPU, memory and disk of the machine, under the names of MMS. Runs in: observer."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

__all__ = ["HostMetrics"]

PERCENT: Final = 100.0
KIB_PER_MB: Final = 1024
BYTES_PER_GB: Final = 1 << 30
IDLE: Final = slice(3, 5)  #: idle and iowait, in the first line of /proc/stat
TIMES: Final = 8  #: that add up to all time; guests are part of user


class HostMetrics:
    """Reads them now and then; the use of the CPU is that since the last time."""

    def __init__(self, proc: Path = Path("/proc"), disk: str = "/") -> None:
        """Read *proc*, and the file system that holds *disk*."""
        self._proc, self._disk = proc, disk
        self._last = self._cpu_times()

    def read(self) -> dict[str, tuple[float, str]]:
        """Return the value and the unit of each metric, by its name."""
        fields = dict(line.split()[:2] for line in self._lines("meminfo"))
        total, available = (float(fields[f"{name}:"]) for name in ("MemTotal", "MemAvailable"))
        disk = shutil.disk_usage(self._disk)
        room = disk.used + disk.free or 1
        return {
            "CPUUtilization": (self._cpu_percent(), "percent"),
            "MemoryUsed": ((total - available) / KIB_PER_MB, "MB"),
            "MemoryAvailable": (available / KIB_PER_MB, "MB"),
            "MemoryUtilization": (PERCENT * (total - available) / total, "percent"),
            "DiskUsed": (disk.used / BYTES_PER_GB, "GB"),
            "DiskAvailable": (disk.free / BYTES_PER_GB, "GB"),
            "DiskUtilization": (PERCENT * disk.used / room, "percent"),
        }

    def _cpu_percent(self) -> float:
        now = self._cpu_times()
        (idle, everything), self._last = (
            [new - old for new, old in zip(now, self._last, strict=True)],
            now,
        )
        return PERCENT * (everything - idle) / everything if everything else 0.0

    def _cpu_times(self) -> tuple[int, int]:
        """Return the ticks that all CPUs were idle, and all ticks, since the machine started."""
        times = [int(each) for each in self._lines("stat")[0].split()[1 : TIMES + 1]]
        return sum(times[IDLE]), sum(times)

    def _lines(self, name: str) -> list[str]:
        return (self._proc / name).read_text("ascii").splitlines()
