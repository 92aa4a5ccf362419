# SPDX-License-Identifier: Apache-2.0
"""The address of the client that sent a request, if need be through proxies."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["ClientAddresses"]

FORWARDED_FOR = b"x-forwarded-for"
FORWARDED_PROTO = b"x-forwarded-proto"
UNIX = "unix"
MAX_PROXIES = 32  #: in front of each other; a longer list is not believed


class ClientAddresses:
    """Reads ``X-Forwarded-For`` and ``X-Forwarded-Proto`` of the proxies that are trusted.

    Each proxy appends the address that it got the request from, so the list is read from its end:
    the first address that is not a trusted proxy is the client's. Entries before it could have
    been written by the client.
    """

    def __init__(self, trusted: Sequence[str]) -> None:
        """Trust proxies at the addresses *trusted*: IP addresses, networks, ``unix``."""
        self._networks = [ip_network(each, strict=False) for each in trusted if each != UNIX]
        self._trusts_unix = UNIX in trusted
        self._is_needed = bool(trusted)

    def client_of(self, peer: Any, headers: Mapping[bytes, bytes]) -> str:
        """Return the IP address of the client; "" behind a Unix socket without a proxy.

        :param peer: the address of the other end of the connection, as ``accept`` returns it.
        """
        nearest = _host_of(peer)
        if not self._is_needed or not self._trusts(nearest):
            return nearest
        found = nearest
        hops = headers.get(FORWARDED_FOR, b"").decode("latin-1").split(",")
        for hop in reversed(hops[-MAX_PROXIES:]):
            address = _parsed(hop)
            if address is None:
                break
            found = str(address)
            if not self._is_trusted(address):
                break
        return found

    def is_https(self, peer: Any, headers: Mapping[bytes, bytes]) -> bool:
        """Return whether a trusted proxy says that its client uses TLS."""
        if not self._is_needed or not self._trusts(_host_of(peer)):
            return False
        return headers.get(FORWARDED_PROTO, b"").rpartition(b",")[2].strip().lower() == b"https"

    def _trusts(self, host: str) -> bool:
        if not host:
            return self._trusts_unix
        address = _parsed(host)
        return address is not None and self._is_trusted(address)

    def _is_trusted(self, address: IPv4Address | IPv6Address) -> bool:
        return any(address in network for network in self._networks)


def _host_of(peer: Any) -> str:
    """Return the host of a socket's address; "" for a Unix socket."""
    return str(peer[0]) if isinstance(peer, tuple) and peer else ""


def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    """Return the address in *text*, with or without a port; ``None`` if there is none."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
