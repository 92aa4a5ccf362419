# SPDX-License-Identifier: Apache-2.0
"""The options of an ingress, and the addresses of its nodes."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from servekit.errors import StartupError

__all__ = [
    "CHECK_EVERY_S",
    "IDLE_S",
    "MOST_PORT",
    "IngressOptions",
    "NodeAddress",
    "addresses",
    "is_address",
]

CHECK_EVERY_S: Final = 1
#: how long idle connections to nodes are kept: less than the ``keep_alive`` of servers, 75 s, so
#: that no request meets a connection that is being closed
IDLE_S: Final = 60
#: hosts that are safe in the files of proxies: with a space, HAProxy would read options
HOST: Final = re.compile(r"[\w.-]+|[0-9a-f:.]+(%[\w.-]+)?", re.ASCII | re.IGNORECASE)
MOST_PORT: Final = 65535


class NodeAddress(NamedTuple):
    """Where a node, or the ingress, listens."""

    host: str  #: a name or an IP address, IPv6 without brackets
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class IngressOptions:
    """Where clients connect, and how their requests are treated."""

    listen: NodeAddress
    grpc_port: int = 0  #: the same for all nodes and the ingress; 0: no gRPC
    timeout_s: int = 75  #: longest wait for a node, and between two pieces of a response
    repeats: bool = False  #: requests that may have run are sent again


def addresses(urls: Iterable[str]) -> list[NodeAddress]:
    """Return where the servers at *urls* listen, sorted, each once.

    :raises StartupError: a URL is not ``http://HOST:PORT``.
    """
    return sorted({_address(url) for url in urls})


def _address(url: str) -> NodeAddress:
    parts = urlsplit(url)
    try:
        host, port = parts.hostname or "", 80 if parts.port is None else parts.port
    except ValueError:  # the port is not a number
        host, port = "", 0
    rest = parts.path.strip("/") or parts.query or parts.fragment or parts.username
    if parts.scheme != "http" or rest or not is_address(host, port):
        raise StartupError(f"{url!r} is not http://HOST:PORT")
    return NodeAddress(host, port)


def is_address(host: str, port: int) -> bool:
    """Whether *host* can be a name or an IP address, and *port* a port."""
    return bool(HOST.fullmatch(host)) and 1 <= port <= MOST_PORT
