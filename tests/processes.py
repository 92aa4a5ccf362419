# SPDX-License-Identifier: Apache-2.0
"""What tests ask about processes, and ports for those that they start."""

import socket
from contextlib import ExitStack
from pathlib import Path

__all__ = ["free_port", "free_ports", "is_alive"]


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
        sockets = [
            probes.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)
        ]
        return [each.getsockname()[1] for each in sockets]
