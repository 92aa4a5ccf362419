# SPDX-License-Identifier: Apache-2.0
"""Requests, the server that gets them, and how often they are sent."""

import struct
from typing import Final, Literal, TypeAlias

from msgspec import Struct

__all__ = [
    "BEGIN",
    "FAILED",
    "LENGTH",
    "READY",
    "ClosedLoop",
    "Load",
    "LoadPlan",
    "OpenLoop",
    "Target",
    "TimedRequest",
    "Tls",
]

# the pipes between ``generate`` and its processes
LENGTH: Final = struct.Struct(">Q")  #: the size of the plan, before it
READY: Final = b"r"  #: the answer: connected
FAILED: Final = b"e"  #: the other answer, before the reason
BEGIN: Final = struct.Struct(">d")  #: the moment, by the monotonic clock


class TimedRequest(Struct, frozen=True):
    """One request, as it is sent again and again."""

    path: str  #: with the query, if there is one
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()  #: others than ``Host`` and ``Content-Length``
    method: str = "POST"

    def to_wire(self, host: str) -> bytes:
        """Return its bytes for the server named *host*."""
        lines = [f"{self.method} {self.path} HTTP/1.1", f"Host: {host}"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        if self.body or self.method == "POST":
            lines.append(f"Content-Length: {len(self.body)}")
        return "\r\n".join([*lines, "", ""]).encode() + self.body


class Tls(Struct, frozen=True):
    """How to speak TLS. Paths of PEM files; empty ones are not used."""

    ca: str = ""  #: authorities to trust in place of the system's
    certificate: str = ""  #: ours, with its chain
    key: str = ""  #: the key of that certificate
    is_verified: bool = True  #: whether the server's certificate must be valid


class Target(Struct, frozen=True):
    """A server, and the requests for it; they are sent in turn."""

    host: str
    port: int
    requests: tuple[TimedRequest, ...]
    unix_path: str = ""  #: the path of a Unix socket, used in place of host and port
    tls: Tls | None = None

    @property
    def name(self) -> str:
        """The value of the header ``Host``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port in (0, 443 if self.tls else 80) else f"{host}:{self.port}"


class ClosedLoop(Struct, frozen=True, tag=True):
    """Connections that each send the next request when the last one is answered."""

    connections: int


class OpenLoop(Struct, frozen=True, tag=True):
    """Requests at fixed moments, whether or not earlier ones have been answered.

    A latency runs from the moment at which the request was due, also if no connection was free.
    """

    rate: float  #: requests/s
    arrivals: Literal["poisson", "constant"] = "poisson"
    connections: int = 128  #: at most; a request that finds none free waits


Load: TypeAlias = ClosedLoop | OpenLoop


class LoadPlan(Struct, frozen=True):
    """The share of one process in a load."""

    target: Target
    load: Load
    warmup_s: float
    duration_s: float
    timeout_s: float  #: the longest wait for an answer
    drain_s: float  #: how long the last answers are waited for
    number: int  #: number of this process
    processes: int

    @property
    def connections(self) -> int:
        """How many of the connections are this process's."""
        each, rest = divmod(self.load.connections, self.processes)
        return each + (self.number < rest)
