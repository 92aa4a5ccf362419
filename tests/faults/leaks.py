# SPDX-License-Identifier: Apache-2.0
"""Whether a server holds after the harm what it held before, and nothing once it has ended."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tests.faults import procfs
from tests.faults.served import NotAsExpected, wait_until

if TYPE_CHECKING:
    from tests.faults.served import Served

SETTLE_S = 60.0  #: connections close, and workers that were killed come back after their pauses
STEADY = 5  #: looks in a row
SHARED_MEMORY = Path("/dev/shm")
DECRYPTED = "servekit-run-"

Holdings = Counter[tuple[str, str]]  #: (role, processes | descriptors | memfds) -> count


def holdings(server: Served) -> Holdings:
    """Count the processes, descriptors and anonymous files of each role.

    Workers of models that cannot load come and go, so that no two looks are the same.
    """
    counts: Holdings = Counter()
    for process in server.processes():
        if process.role in server.uncounted:
            continue
        counts[process.role, "processes"] += 1
        counts[process.role, "descriptors"] += len(procfs.descriptors(process.pid))
        counts[process.role, "memfds"] += procfs.memfds(process.pid)
    return counts


def settled(server: Served) -> Holdings:
    """Return the holdings once they have stayed the same for a while."""
    seen: list[Holdings] = []

    def is_steady() -> bool:
        seen.append(holdings(server))
        return len(seen) > STEADY and all(each == seen[-1] for each in seen[-STEADY:])

    wait_until(is_steady, "what the server holds stays the same")
    return seen[-1]


def grown(server: Served, before: Holdings) -> list[str]:
    """Return what is more than *before*, once it has had time to settle: ``front-end: +2 ...``.

    Less is no leak, since a process that replaces another makes things when it needs them; but
    there must be as many processes.
    """
    found: list[str] = []

    def is_as_before() -> bool:
        found[:] = _differences(holdings(server), before)
        return not found

    with suppress(NotAsExpected):
        wait_until(is_as_before, "as before", SETTLE_S)
    return found


def _differences(now: Holdings, before: Holdings) -> list[str]:
    return [
        f"{role}: {now[role, what] - before[role, what]:+d} {what}"
        for role, what in sorted(now.keys() | before.keys())
        if now[role, what] > before[role, what]
        or (what == "processes" and now[role, what] < before[role, what])
    ]


def shared_memory() -> set[str]:
    """Return the names in ``/dev/shm``.

    Not those of directories for decrypted archives: a server that has them is not one of these.
    """
    if not SHARED_MEMORY.exists():
        return set()
    return {path.name for path in SHARED_MEMORY.iterdir() if not path.name.startswith(DECRYPTED)}


def _unclaimed(names: set[str]) -> set[str]:
    """Return those of *names* that are files, and that no process of this machine has."""
    files = {name for name in names if (SHARED_MEMORY / name).is_file()}
    if not files:
        return files
    taken = "".join(map(procfs.shared_memory, procfs.pids()))
    return {name for name in files if f"{SHARED_MEMORY}/{name}\n" not in taken}


def left_behind(server: Served, shared_before: set[str]) -> list[str]:
    """Return what an ended server has left: processes, temporary directories, shared memory."""
    found = [f"{each.role} {each.pid}" for each in server.left_over()]
    found += [f"tmp/{path.name}" for path in server.scratch.iterdir()]
    found += [f"cache/{path.name}" for path in server.cache.rglob(".unpacking-*")]
    left = _unclaimed(shared_memory() - shared_before)
    return found + [f"{SHARED_MEMORY}/{name}" for name in sorted(left)]
