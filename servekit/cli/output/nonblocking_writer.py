# SPDX-License-Identifier: Apache-2.0
"""Writes text to a descriptor whose reader may be slow or gone, without waiting for it."""

import os
import select
from time import monotonic
from typing import TYPE_CHECKING

from servekit.counting import counted

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["NonblockingWriter"]

#: a pipe that polls writable takes this much without blocking: PIPE_BUF of pipe(7)
CHUNK_BYTES = 4096
MAX_WAITING_BYTES = 1 << 20
RETRY_S = 0.05
LAST_WAIT_S = 1.0


class NonblockingWriter:
    """Keeps what the reader does not take yet, up to a limit; then drops lines and counts them.

    The descriptor itself stays blocking: the flag would apply to every process that shares the
    terminal.
    """

    def __init__(self, fd: int) -> None:
        """Write to *fd*, which stays open."""
        self._fd = fd
        self._waiting = bytearray()
        self._dropped = 0
        self._is_gone = False
        self._is_retrying = False
        self.call_later: Callable[[float, Callable[[], object]], object] | None = None

    def write(self, text: str) -> None:
        """Write *text*, which ends with a line break, now or later."""
        if len(self._waiting) > MAX_WAITING_BYTES:
            self._dropped += 1
            return
        if self._dropped:
            self._waiting += f"[{counted(self._dropped, 'line')} dropped]\n".encode()
            self._dropped = 0
        self._waiting += text.encode(errors="backslashreplace")
        self._flush()

    def close(self) -> None:
        """Write the rest, unless that takes too long."""
        deadline = monotonic() + LAST_WAIT_S
        while self._waiting and not self._is_gone and monotonic() < deadline:
            self._write(LAST_WAIT_S)

    def _flush(self) -> None:
        while self._waiting and self._write(0):
            pass
        if self._waiting and self.call_later and not self._is_retrying:
            self._is_retrying = True
            self.call_later(RETRY_S, self._retry)

    def _retry(self) -> None:
        self._is_retrying = False
        self._flush()

    def _write(self, patience_s: float) -> bool:
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        if not poll.poll(patience_s * 1000):
            return False
        try:
            count = os.write(self._fd, self._waiting[:CHUNK_BYTES])
        except OSError:  # nobody reads, or the disk is full: the server continues
            self._is_gone = True
            count = len(self._waiting)
        del self._waiting[:count]
        return True
