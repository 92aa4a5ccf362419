# SPDX-License-Identifier: Apache-2.0
"""Addresses of running servers: ``http://HOST:PORT/PATH``, ``https://...``, ``unix:SOCKET``."""

from typing import Final
from urllib.parse import urlsplit

from servekit.errors import StartupError
from servekit_bench.load import Target, Tls

__all__ = ["is_address", "parse_address"]

UNIX: Final = "unix:"


def is_address(text: str) -> bool:
    """Return whether *text* names a running server, not an archive."""
    return text.startswith(("http://", "https://", UNIX))


def parse_address(text: str, tls: Tls) -> tuple[Target, str]:
    """Return the server that *text* names, without requests, and the path; ``""`` for none.

    :param tls: used for ``https``.
    :raises StartupError: *text* is not an address.
    """
    if text.startswith(UNIX):
        return Target("localhost", 0, (), unix_path=text.removeprefix(UNIX)), ""
    try:
        parts = urlsplit(text)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise StartupError(f"{text}: {error}") from error
    if not parts.hostname:
        raise StartupError(f"{text}: has no host")
    query = f"?{parts.query}" if parts.query else ""
    path = "" if parts.path in ("", "/") and not query else parts.path + query
    return Target(parts.hostname, port, (), tls=tls if parts.scheme == "https" else None), path
