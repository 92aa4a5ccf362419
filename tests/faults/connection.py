# SPDX-License-Identifier: Apache-2.0
"""One socket of the client, with at most one request on it."""

from __future__ import annotations

import errno
import re
import socket
from time import monotonic
from typing import TYPE_CHECKING

from tests.benchmarks.http_answer import body_of, is_whole

if TYPE_CHECKING:
    from tests.faults.ledger import Line
    from tests.faults.requests import Shot

READ_BYTES = 1 << 18
STATUS = re.compile(rb"HTTP/1\.1 ([1-5][0-9][0-9]) ")
CLOSES = re.compile(rb"\r\nconnection:[ \t]*close[ \t]*\r\n", re.IGNORECASE)


class Connection:
    """A non-blocking socket to the server; ``line`` is of the request on it, if there is one."""

    def __init__(self, port: int) -> None:
        """Begin to connect; the kernel tells by the first event how it went."""
        self.sock = socket.socket()
        self.sock.setblocking(False)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.fd = self.sock.fileno()
        self._is_refused = self.sock.connect_ex(("127.0.0.1", port)) == errno.ECONNREFUSED
        self.line: Line | None = None
        self.shot: Shot | None = None
        self.unsent = memoryview(b"")
        self._received = b""
        self.is_spent = False  #: the server closes it, or has sent what is no answer

    @property
    def is_stale(self) -> bool:
        """Whether the server has closed it meanwhile; clients look before they reuse one."""
        try:
            return not self.sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def carry(self, shot: Shot, line: Line) -> None:
        """Take a request; ``write`` sends it."""
        self.shot, self.line = shot, line
        self.unsent = memoryview(shot.wire)
        self._received = b""

    def write(self) -> None:
        """Send what the kernel takes.

        :raises OSError: the connection is gone. An answer may have come before.
        """
        assert self.line is not None
        try:
            count = self.sock.send(self.unsent)
        except BlockingIOError:
            return
        except ConnectionRefusedError:
            self._is_refused = True
            raise
        if self.line.sent != self.line.sent:  # NaN: nothing had gone out
            self.line.sent = monotonic()
        self.unsent = self.unsent[count:]

    def read(self) -> bool:
        """Receive; return whether the request has come to its end."""
        if self._is_refused:
            return self._ended("refused")
        try:
            data = self.sock.recv(READ_BYTES)
        except BlockingIOError:
            return False
        except ConnectionRefusedError:
            return self._ended("refused")
        except OSError:
            return self._ended("reset")
        if self.line is None:  # idle: the server closes it, or says what nobody asked for
            self.is_spent = True
            return False
        self._received += data
        if data and not is_whole(self._received):
            return False
        return self._answered() if is_whole(self._received) else self._ended("closed")

    def _answered(self) -> bool:
        assert self.line is not None
        assert self.shot is not None
        head = self._received.partition(b"\r\n\r\n")[0] + b"\r\n"
        status = STATUS.match(head)
        if status is None:
            return self._ended("closed")
        self.line.status = int(status[1])
        self.line.body = body_of(self._received)
        self.line.is_right = self.line.status != 200 or self.shot.echo in self.line.body
        self.is_spent = bool(CLOSES.search(head)) or bool(self.unsent)
        self.line.end, self.line.ended = "answered", monotonic()
        return True

    def _ended(self, end: str) -> bool:
        self.is_spent = True
        if self.line is None:
            return False
        self.line.end, self.line.ended = end, monotonic()
        return True

    def give_up(self, end: str) -> None:
        """Close it under its request: too long without an answer, or the client leaves."""
        self._ended(end)
        self.sock.close()
