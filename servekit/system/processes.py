# SPDX-License-Identifier: Apache-2.0
"""The resources of a process, as ``/proc`` counts them."""

import os
from typing import NamedTuple

__all__ = ["MemoryUse", "ProcessUsage", "memory_of", "proportional_bytes", "usage_of"]

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
#: places in ``/proc/PID/stat`` after the name of the program, which may contain spaces
USER_TIME, SYSTEM_TIME, RESIDENT = 11, 12, 21


class ProcessUsage(NamedTuple):
    """Processor time and memory of one process."""

    cpu_s: float  #: processor time of all its threads
    memory_bytes: int  #: resident; memory that it shares with others is included


def usage_of(pid: int) -> ProcessUsage | None:
    """Return what the process *pid* uses; ``None`` if it does not run."""
    try:
        file = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fields = os.read(file, 4096).rpartition(b")")[2].split()
    except ProcessLookupError:
        return None
    finally:
        os.close(file)
    ticks = int(fields[USER_TIME]) + int(fields[SYSTEM_TIME])
    return ProcessUsage(ticks / TICKS_PER_S, int(fields[RESIDENT]) * PAGE_BYTES)


class MemoryUse(NamedTuple):
    """The resident memory of one process, in bytes."""

    private: int  #: only this process has it
    shared: int  #: mapped files and shared memory, which other processes may hold as well


def memory_of(pid: int) -> MemoryUse | None:
    """Return the memory of the process *pid*; ``None`` if it does not run. Takes microseconds."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:  # noqa: PTH123 - as fast as it gets
            _, resident, shared = file.read().split()[:3]
    except (OSError, ValueError):
        return None
    return MemoryUse((int(resident) - int(shared)) * PAGE_BYTES, int(shared) * PAGE_BYTES)


def proportional_bytes(pid: int) -> int:
    """Return the proportional set size of the process *pid*; 0 if it does not run.

    Memory that it shares with others is divided among them. Takes about a millisecond.
    """
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:  # noqa: PTH123 - as fast as it gets
            found = next((line for line in file if line.startswith(b"Pss:")), b"Pss: 0 kB")
    except OSError:
        return 0
    return int(found.split()[1]) * 1024
