# SPDX-License-Identifier: Apache-2.0
"""HTTP over a Unix socket, as a client."""

import socket
from http.client import HTTPConnection
from pathlib import Path

__all__ = ["UnixConnection"]


class UnixConnection(HTTPConnection):
    """A connection to the server that listens at a path."""

    def __init__(self, path: Path | str, timeout_s: float) -> None:
        """Connect to *path* with the first request.

        :param timeout_s: for each wait: to connect, to send, to receive.
        """
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """Connect."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
