# SPDX-License-Identifier: Apache-2.0
"""The limits of the control groups of this process: memory and CPU, others in version 2 alone."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["MemoryGroup", "cpu_quota", "group_values", "memory_groups", "oom_kills", "table"]

NO_LIMIT = 1 << 60  #: version 1 writes "none" as the largest page count, version 2 as "max"


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """One group with a limit, in bytes."""

    limit: int
    used: int  #: without the inactive pages of files: the kernel can reclaim them


@dataclass(frozen=True, slots=True)
class Names:
    """The names of the files in one version."""

    mount: str
    limit: str
    used: str
    inactive: str
    events: str  #: has the number of processes that were killed because memory ran out


V2 = Names("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file", "memory.events")
V1 = Names(
    "sys/fs/cgroup/memory",
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    "total_inactive_file",
    "memory.oom_control",
)
#: where the quota is in version 1; in version 2, one file has both numbers
CPU_V1 = "sys/fs/cgroup/cpu", ["cpu.cfs_quota_us", "cpu.cfs_period_us"]


def memory_groups(root: Path = Path("/")) -> list[MemoryGroup]:
    """Return the groups with a limit, from that of this process up to the root.

    :param root: the directory of ``proc`` and ``sys``; another one in tests.
    """
    places = ((names, path) for names, own in _own(root) for path in (own, *own.parents))
    found = (_read(root / names.mount / path, names) for names, path in places)
    return [group for group in found if group is not None]


def oom_kills(root: Path = Path("/")) -> int | None:
    """Return how many processes of our group the kernel killed because memory ran out.

    :param root: the directory of ``proc`` and ``sys``; another one in tests.
    :return: ``None`` if no group counts them.
    """
    for names, own in _own(root):
        for path in (own, *own.parents):
            count = table(root / names.mount / path / names.events).get("oom_kill")
            if count is not None:
                return count
    return None


def cpu_quota(root: Path = Path("/")) -> float | None:
    """Return how many cores a quota allows: the smallest one, from our group up.

    :param root: the directory of ``proc`` and ``sys``; another one in tests.
    :return: ``None`` without a quota.
    """
    quotas = []
    for names, own in _own(root, "cpu"):
        for path in (own, *own.parents):
            mount, files = (V2.mount, ["cpu.max"]) if names is V2 else CPU_V1
            texts = [_text(root / mount / path / name) for name in files]
            with suppress(ValueError):  # no such group, or "max"
                quota, period = map(int, " ".join(texts).split())
                if quota > 0 and period > 0:  # version 1 writes "none" as -1
                    quotas.append(quota / period)
    return min(quotas, default=None)


def group_values(name: str, root: Path = Path("/")) -> list[str]:
    """Return the content of the file *name*, such as ``pids.max``, from our group up (version 2).

    :param root: the directory of ``proc`` and ``sys``; another one in tests.
    """
    found = []
    for own in (path for names, path in _own(root) if names is V2):
        for group in (own, *own.parents):
            with suppress(OSError):
                text = (root / V2.mount / group / name).read_text(encoding="ascii")
                found.append(text.strip())
    return found


def _own(root: Path, controller: str = "memory") -> Iterator[tuple[Names, Path]]:
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0":
            yield V2, Path(path.lstrip("/"))
        elif controller in controllers.split(","):
            yield V1, Path(path.lstrip("/"))


def _read(group: Path, names: Names) -> MemoryGroup | None:
    try:
        limit = int((group / names.limit).read_text(encoding="ascii"))  # ValueError: "max"
        used = int((group / names.used).read_text(encoding="ascii"))
    except (OSError, ValueError):  # no such group, or one without a limit
        return None
    if limit >= NO_LIMIT:
        return None
    return MemoryGroup(limit, max(0, used - table(group / "memory.stat").get(names.inactive, 0)))


def _text(path: Path) -> str:
    """Return the content of a file; "" if it does not exist."""
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""


def table(path: Path) -> dict[str, int]:
    """Return the first two columns of a file; empty if it does not exist."""
    try:
        rows = [line.split() for line in path.read_text(encoding="ascii").splitlines()]
    except OSError:
        return {}
    return {row[0]: int(row[1]) for row in rows if len(row) > 1}
