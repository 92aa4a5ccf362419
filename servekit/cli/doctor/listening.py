# SPDX-License-Identifier: Apache-2.0
"""The addresses on which a running server listens, as ``/proc`` tells them to its user."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["listening_on"]

PROC: Final = Path("/proc")
LISTENS: Final = "0A"  #: the state of a TCP socket
ACCEPTS: Final = 0x10000  #: the flag of a Unix socket that accepts connections


def listening_on(pid: int) -> frozenset[int | str]:
    """Return the ports and the paths of sockets of the process *pid* and of those it started."""
    owned = {inode for each in _family(pid) for inode in _sockets(each)}
    return frozenset(address for inode, address in _listeners(pid) if inode in owned)


def _family(pid: int) -> Iterator[int]:
    yield pid
    for path in PROC.glob(f"{pid}/task/*/children"):
        with suppress(OSError):
            for child in path.read_text(encoding="ascii").split():
                yield from _family(int(child))


def _sockets(pid: int) -> Iterator[str]:
    """Yield the inodes of the sockets that the process has open."""
    with suppress(OSError):
        for path in PROC.joinpath(str(pid), "fd").iterdir():
            with suppress(OSError):
                kind, _, inode = path.readlink().name.partition(":[")
                if kind == "socket":
                    yield inode.removesuffix("]")


def _listeners(pid: int) -> Iterator[tuple[str, int | str]]:
    """Yield inode and address of what listens in the network namespace of the process."""
    for kind in ("tcp", "tcp6"):
        for row in _rows(pid, kind):
            if row[3] == LISTENS:
                yield row[9], int(row[1].rpartition(":")[2], 16)
    for row in _rows(pid, "unix"):
        if len(row) > 7 and int(row[3], 16) & ACCEPTS:
            yield row[6], " ".join(row[7:])


def _rows(pid: int, kind: str) -> list[list[str]]:
    try:
        text = PROC.joinpath(str(pid), "net", kind).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return []
    return [line.split() for line in text.splitlines()[1:]]
