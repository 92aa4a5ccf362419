# SPDX-License-Identifier: Apache-2.0
"""What tests ask about processes, and ports for those that they start."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import cycle
from pathlib import Path
from typing import Final

__all__ = ["free_port", "free_ports", "is_alive"]

FIRST_PORT: Final = 10_000  #: of those that are looked up


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def free_port() -> int:
    """Return a port of this machine where nothing listens now."""
    (port,) = free_ports(1)
    return port


def free_ports(count: int) -> list[int]:
    """Return several of them, all different."""
    with ExitStack() as probes:
        found: list[int] = []
        while len(found) < count:
            with suppress(OSError):  # it is in use
                probe = socket.create_server(("127.0.0.1", next(_candidates)))
                found.append(probes.enter_context(probe).getsockname()[1])
        return found


def _ports() -> Iterator[int]:
    """Yield ports below those that the kernel chooses, each process from another one on.

    The kernel may give a port of its own choice to anybody's connection, or to another test,
    before the server that it was looked up for listens there.
    """
    chosen_from = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = range(FIRST_PORT, chosen_from) or range(1)  # 0: the kernel chooses
    begin = os.getpid() * 101 % len(ports)
    yield from cycle([*ports[begin:], *ports[:begin]])


_candidates = _ports()
