# SPDX-License-Identifier: Apache-2.0
"""Finds servers that come and go."""

import json
import socket
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

__all__ = ["Discovery", "DnsDiscovery", "FileDiscovery"]


class Discovery(ABC):
    """Derive from it to find servers in another way."""

    every_s: float = 10.0  #: how often a client looks

    @abstractmethod
    def urls(self) -> Sequence[str]:
        """Return the URLs of all servers. Runs in a thread; may block.

        If it returns none, or raises an ``OSError``, clients keep those that they know.
        """


class DnsDiscovery(Discovery):
    """All addresses of a name: a headless service of Kubernetes, or several A records."""

    def __init__(self, url: str, *, every_s: float = 10.0) -> None:
        """Look up the host of *url*, ``http://models.default.svc:8080``.

        :raises ValueError: it is not ``http``: certificates hold names, not addresses.
        """
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError(f"url: {url!r} is not http://NAME:PORT")
        self._host, self._port = parts.hostname, parts.port or 80
        self._path = parts.path.rstrip("/")
        self.every_s = every_s

    def urls(self) -> Sequence[str]:
        """Return a URL for each address.

        :raises OSError: the name cannot be looked up.
        """
        try:
            found = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        except socket.gaierror as error:
            raise OSError(f"{self._host}: {error.strerror}") from error
        hosts = sorted({f"[{at[0]}]" if ":" in str(at[0]) else str(at[0]) for *_, at in found})
        return [f"http://{host}:{self._port}{self._path}" for host in hosts]


class FileDiscovery(Discovery):
    """A file that somebody else keeps up to date: a JSON list of URLs."""

    def __init__(self, path: str | Path, *, every_s: float = 1.0) -> None:
        """Read the file at *path*."""
        self._path = Path(path)
        self.every_s = every_s

    def urls(self) -> Sequence[str]:
        """Return the URLs in the file.

        :raises OSError: it cannot be read, or is something else.
        """
        try:
            found = json.loads(self._path.read_text())
        except ValueError as error:
            raise OSError(f"{self._path}: not JSON") from error
        if not isinstance(found, list) or not all(map(_is_url, found)):
            raise OSError(f"{self._path}: not a JSON list of URLs")
        return found


def _is_url(found: object) -> bool:
    return isinstance(found, str) and found.startswith(("http://", "https://"))
