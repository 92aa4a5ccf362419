# SPDX-License-Identifier: Apache-2.0
"""How much memory is left: on this machine, or in the control groups that hold us."""

from pathlib import Path

__all__ = ["available_bytes"]

UNLIMITED = "max"


def available_bytes(root: Path = Path("/")) -> int | None:
    """Return what can be taken without swapping, by the tightest limit; ``None`` if untold.

    :param root: what ``proc`` and ``sys`` are under; another one in tests.
    """
    known = [_machine(root), *_groups(root)]
    return min((count for count in known if count is not None), default=None)


def _machine(root: Path) -> int | None:
    kib = _table(root / "proc/meminfo").get("MemAvailable:")
    return None if kib is None else kib * 1024


def _groups(root: Path) -> list[int | None]:
    """Return what each cgroup (v2) from ours up to the root leaves."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    paths = [line.removeprefix("0::/") for line in lines if line.startswith("0::/")]
    top = root / "sys/fs/cgroup"
    return [_group(top / place) for path in paths for place in (Path(path), *Path(path).parents)]


def _group(group: Path) -> int | None:
    try:
        limit = (group / "memory.max").read_text(encoding="ascii").strip()
        used = int((group / "memory.current").read_text(encoding="ascii"))
    except (OSError, ValueError):  # no such group, or the root, which has no limit
        return None
    if limit == UNLIMITED:
        return None
    # pages of files that nobody looked at lately make room by themselves
    return max(0, int(limit) - used + _table(group / "memory.stat").get("inactive_file", 0))


def _table(path: Path) -> dict[str, int]:
    """Return the first two columns."""
    try:
        rows = [line.split() for line in path.read_text(encoding="ascii").splitlines()]
    except OSError:
        return {}
    return {row[0]: int(row[1]) for row in rows if len(row) > 1}
