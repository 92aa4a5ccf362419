# SPDX-License-Identifier: Apache-2.0
"""The writing half of a connection: what the kernel does not take at once waits here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

__all__ = ["JOIN_BYTES", "Sender"]

WRITE = 2
JOIN_BYTES = 16_384  #: below it, copying a body behind its head is cheaper than a second buffer


class Sender:
    """Writes buffers in order; owns none of them, but says when one is no longer needed."""

    __slots__ = ("_loop", "_on_flushed", "_on_lost", "_release", "_socket", "_watcher", "rest")

    def __init__(
        self,
        sock: socket.socket,
        loop: Any,
        on_flushed: Callable[[], None],
        on_lost: Callable[[], None],
    ) -> None:
        """Write to the non-blocking *sock*.

        :param on_flushed: called when all that had to wait has been written.
        :param on_lost: called when the client takes nothing any more.
        """
        self._socket = sock
        self._loop = loop
        self._on_flushed = on_flushed
        self._on_lost = on_lost
        self.rest: list[memoryview] = []  #: what the kernel has not taken yet
        self._release: Callable[[], None] | None = None
        self._watcher: Any = None

    def send(self, data: bytes) -> None:
        """Write *data*, or keep what the kernel does not take."""
        if self.rest:
            self.rest.append(memoryview(data))
            return
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._on_lost()
            return
        if sent < len(data):
            self._keep([memoryview(data)], sent)

    def send_with(
        self, head: bytes, body: bytes | memoryview, release: Callable[[], None] | None
    ) -> None:
        """Write *head* and a *body* that is not copied; call *release* when it is out, or lost."""
        self._release = release
        if self.rest:
            self.rest += [memoryview(head), memoryview(body)]
        else:
            try:
                sent = self._socket.sendmsg((head, body))
            except BlockingIOError:
                sent = 0
            except OSError:
                self._on_lost()
                return
            if sent < len(head) + len(body):
                self._keep([memoryview(head), memoryview(body)], sent)
        if not self.rest:
            self._let_go()

    def close(self) -> None:
        """Forget what waits."""
        if self._watcher is not None:
            self._watcher.stop()
            self._watcher.close()
        self.rest.clear()
        self._let_go()

    def _keep(self, buffers: list[memoryview], sent: int) -> None:
        self.rest = _after(buffers, sent)
        if self._watcher is None:
            self._watcher = self._loop.io(self._socket.fileno(), WRITE)
        self._watcher.start(self._on_writable)

    def _on_writable(self) -> None:
        try:
            sent = self._socket.sendmsg(self.rest)
        except BlockingIOError:
            return
        except OSError:
            self._on_lost()
            return
        self.rest = _after(self.rest, sent)
        if not self.rest:
            self._watcher.stop()
            self._let_go()
            self._on_flushed()

    def _let_go(self) -> None:
        release, self._release = self._release, None
        if release is not None:
            release()


def _after(buffers: list[memoryview], sent: int) -> list[memoryview]:
    """Return what is left of *buffers* when *sent* bytes of them are out."""
    left = []
    for buffer in buffers:
        if sent < len(buffer):
            left.append(buffer[sent:])
        sent = max(0, sent - len(buffer))
    return left
