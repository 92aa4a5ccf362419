# SPDX-License-Identifier: Apache-2.0
"""What ``/proc`` says about the processes of a server."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.benchmarks.processes import TICKS_PER_S, Stat, read_stats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LISTEN = "0A"
LOOPBACK = ("0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F")


class Process(NamedTuple):
    """One process of a server."""

    pid: int
    started: int  #: in clock ticks; with the pid it is never reused
    parent: int
    role: str  #: supervisor, arbiter, front-end, ``worker MODEL`` or other

    @property
    def is_alive(self) -> bool:
        """Whether it still runs, and is no zombie."""
        return any(s.pid == self.pid and s.started == self.started for s in read_stats())


def descendants(root: int, role: Callable[..., str]) -> list[Process]:
    """Return *root* and all that descends from it.

    :param role: a ``Subject``'s.
    """
    stats = {stat.pid: stat for stat in read_stats()}
    found = [stats[root]] if root in stats else []
    for stat in found:
        found += [other for other in stats.values() if other.parent == stat.pid]

    def of(stat: Stat) -> str:
        line = _read(stat.pid, "cmdline")
        return role(line, is_root=stat.pid == root, is_child=stat.parent == root)

    return [Process(stat.pid, stat.started, stat.parent, of(stat)) for stat in found]


def alive(processes: list[Process]) -> list[Process]:
    """Return those that still run."""
    running = {(stat.pid, stat.started) for stat in read_stats()}
    return [each for each in processes if (each.pid, each.started) in running]


def descriptors(pid: int) -> list[str]:
    """Return what every descriptor of a process leads to."""
    targets = []
    with suppress(OSError):
        for path in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                targets.append(str(path.readlink()))
    return targets


def memfds(pid: int) -> int:
    """Return how many anonymous files a process has open or mapped."""
    mapped = {line.split()[4] for line in _read(pid, "maps").splitlines() if "/memfd:" in line}
    return len(mapped) + sum("/memfd:" in target for target in descriptors(pid))


def cpu_s(processes: list[Process]) -> float:
    """Return the CPU seconds, user and system, of these and of the children they have reaped."""
    pids = {process.pid for process in processes}
    return sum(stat.ticks for stat in read_stats() if stat.pid in pids) / TICKS_PER_S


def pids() -> list[int]:
    """Return the processes of this machine."""
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")]


def shared_memory(pid: int) -> str:
    """Return a line for each thing that a process has mapped or open, which ends with its path."""
    return _read(pid, "maps") + "".join(f"{target}\n" for target in descriptors(pid))


def command_line(pid: int) -> str:
    """Return the arguments of a process, each with a NUL behind it; "" once it is gone."""
    return _read(pid, "cmdline")


def rss_bytes(pid: int) -> int:
    """Return the resident memory of a process, 0 once it is gone."""
    pages = _read(pid, "statm").split()
    return int(pages[1]) * os.sysconf("SC_PAGE_SIZE") if pages else 0


def held_bytes(pid: int, others: list[int]) -> int:
    """Return the memory that a process holds: its own pages, and its anonymous files as a whole.

    An anonymous file takes memory whether or not the process has touched a page of it. What it
    has mapped and closed is found where one of the *others* has it open.
    """
    status = dict(line.partition(":")[::2] for line in _read(pid, "status").splitlines())
    own = sum(int(status[key].split()[0]) * 1024 for key in ("RssAnon", "RssFile") if key in status)
    mapped = {line.split()[4] for line in _read(pid, "maps").splitlines() if "/memfd:" in line}
    ours = {inode for inode, _ in _memfd_sizes(pid)} | set(map(int, mapped))
    sizes = dict(found for each in (pid, *others) for found in _memfd_sizes(each))
    return own + sum(sizes.get(inode, 0) for inode in ours)


def _memfd_sizes(pid: int) -> Iterator[tuple[int, int]]:
    """Yield inode and bytes in memory of each anonymous file that a process has open."""
    with suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 - in a fraction of the time
            path = f"/proc/{pid}/fd/{name}"
            with suppress(OSError):
                if os.readlink(path).startswith("/memfd:"):  # noqa: PTH115 - the same
                    stat = os.stat(path)  # noqa: PTH116 - the same
                    yield stat.st_ino, stat.st_blocks * 512


def highest_rss_bytes(pid: int) -> int:
    """Return the most resident memory that a process ever had, 0 once it is gone."""
    found = re.search(r"^VmHWM:\s+(\d+) kB", _read(pid, "status"), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def listening(pids: list[int]) -> list[str]:
    """Return the local addresses, ``HEX:PORT``, of the TCP listeners and UDP sockets of *pids*."""
    ours = {target[8:-1] for pid in pids for target in descriptors(pid) if target[:8] == "socket:["}
    found = []
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[9] in ours and (fields[3] == LISTEN or table.startswith("udp")):
                found.append(fields[1])
    return found


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach ``HEX:PORT``."""
    return address.partition(":")[0] in LOOPBACK


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""
