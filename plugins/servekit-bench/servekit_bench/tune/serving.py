# SPDX-License-Identifier: Apache-2.0
"""A server for one candidate, and what its processes use."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from servekit_bench.load import Target
from servekit_bench.targets import TargetOptions, opened
from servekit_bench.tune.candidate import Candidate

__all__ = ["ServerUsage", "Serving", "serving"]

TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
WORKER: Final = b"servekit.worker"
PROC: Final = Path("/proc")


@dataclass(frozen=True, slots=True)
class ServerUsage:
    """The resources that processes have used since they started."""

    worker_cpu_s: float
    server_cpu_s: float  #: all processes of the server that are not workers
    worker_bytes: int  #: most private memory that one worker had at a time


@dataclass(frozen=True, slots=True)
class Serving:
    """A server that answers with the settings of a candidate."""

    candidate: Candidate
    target: Target
    root: int  #: its first process

    def usage(self) -> ServerUsage:
        """Return what its processes have used until now."""
        pids = list(descendants(self.root))
        workers = [pid for pid in pids if WORKER in _read(pid, "cmdline")]
        return ServerUsage(
            worker_cpu_s=sum(map(_cpu_s, workers)),
            server_cpu_s=sum(_cpu_s(pid) for pid in pids if pid not in workers),
            worker_bytes=max(map(_private_bytes, workers), default=0),
        )


@contextmanager
def serving(
    path: str, model: str, candidate: Candidate, options: TargetOptions
) -> Iterator[Serving]:
    """Serve the model *model* at *path* with the settings of *candidate*.

    :param options: how to ask it; its settings are those of all candidates.
    :raises StartupError: it cannot be served.
    """
    given = [*options.settings.get("set", []), *candidate.assignments(model)]
    settings = {**options.settings, "set": given, "front_ends": candidate.front_ends}
    before = set(children(os.getpid()))
    with opened(path, replace(options, settings=settings)) as found:
        (root, *_) = set(children(os.getpid())) - before
        yield Serving(candidate, found.target, root)


def children(pid: int) -> list[int]:
    """Return the children of the process *pid*."""
    found = []
    for thread in PROC.joinpath(str(pid), "task").glob("*/children"):
        try:
            found += [int(each) for each in thread.read_bytes().split()]
        except OSError:  # the thread has ended
            continue
    return found


def descendants(pid: int) -> Iterator[int]:
    """Yield the process *pid* and all that came from it."""
    yield pid
    for child in children(pid):
        yield from descendants(child)


def _read(pid: int, name: str) -> bytes:
    try:
        return PROC.joinpath(str(pid), name).read_bytes()
    except OSError:  # it has ended
        return b""


def _cpu_s(pid: int) -> float:
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S if fields else 0.0


def _private_bytes(pid: int) -> int:
    """Return the most memory that a process had, without files and memory that others share."""
    rows = dict(line.split(b":", 1) for line in _read(pid, "status").splitlines() if b":" in line)
    peak, *shared = (
        int(rows.get(name, b"0").split()[0]) for name in (b"VmHWM", b"RssFile", b"RssShmem")
    )
    return max(0, peak - sum(shared)) * 1024
