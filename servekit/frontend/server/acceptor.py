# SPDX-License-Identifier: Apache-2.0
"""The listeners of one front-end: takes connections while there is room for them."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import socket
import struct
from time import monotonic
from typing import TYPE_CHECKING, Any

import gevent
from gevent.monkey import get_original

from servekit.errors import NotReady
from servekit.extension.problems import problem_response
from servekit.frontend.http.tls import TlsSocket

if TYPE_CHECKING:
    from collections.abc import Iterable

    from servekit.frontend.http1.head import HeadWriter
    from servekit.frontend.http1.transport import Http1
    from servekit.frontend.server.connection_shares import Shares
    from servekit.settings import Settings

__all__ = ["Acceptor"]

READ = 1
ACCEPTS_PER_TURN = 64
PATIENCE_S = 0.001  #: before a front-end that has more connections than another takes one more
RESERVE = 64  #: connections over ``max_connections``, for one request each: someone asks how we are
HANDSHAKES_S = 0.02  #: for those that had begun when the listener began to refuse
#: what the next accept would fail with too: no descriptor or no memory for one more
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
SO_ATTACH_FILTER = 26  # socket(7)
# classic BPF on the TCP header: drop SYN without ACK, keep all else
FIRST_SYN = b"".join(
    struct.pack("=HBBI", *step)
    for step in ((0x30, 0, 0, 13), (0x54, 0, 0, 0x12), (0x15, 0, 1, 0x02), (0x06, 0, 0, 0),
                 (0x06, 0, 0, 0xFFFFFFFF))
)  # fmt: skip

PlainSocket: Any = get_original("socket", "socket")


class Acceptor:
    """Owns this process's copies of the listeners."""

    def __init__(self, http1: Http1, shares: Shares | None = None) -> None:
        """Accept nothing yet.

        :param http1: makes the connections.
        :param shares: of the front-ends that accept from the same listeners, if there are several.
        """
        self._http1 = http1
        self._host = http1.host
        self._shares = shares
        self._watchers: list[tuple[Any, Any]] = []
        self._is_paused = False
        self._patience: Any = self._host.loop.timer(PATIENCE_S)
        self._is_patient = False  #: one that has fewer connections gets the chance to take them

    def open(self, listeners: Iterable[socket.socket]) -> None:
        """Accept from copies of *listeners* from now on."""
        for listener in listeners:
            plain = PlainSocket(fileno=os.dup(listener.fileno()))
            plain.setblocking(False)
            set_options(plain, self._host.settings)
            watcher = self._host.loop.io(plain.fileno(), READ)
            watcher.start(self._on_acceptable, plain)
            self._watchers.append((watcher, plain))

    def pause(self) -> None:
        """Leave clients to the kernel, which keeps them waiting."""
        if not self._is_paused:
            self._is_paused = True
            for watcher, _ in self._watchers:
                watcher.stop()

    def resume(self) -> None:
        """Accept again."""
        if self._is_paused:
            self._is_paused = False
            for watcher, listener in self._watchers:
                watcher.start(self._on_acceptable, listener)

    def close(self, *, is_last: bool) -> None:
        """Accept no more.

        :param is_last: nobody else accepts from them: so the kernel is made to take no
            connection, and what it has taken is accepted, lest it be reset.
        """
        if is_last:
            for _, listener in self._watchers:
                refuse_connections(listener)
            gevent.sleep(HANDSHAKES_S)
        for watcher, listener in self._watchers:
            while is_last and self._accept(listener):
                pass
            watcher.stop()
            watcher.close()
            listener.close()
        self._watchers.clear()
        self._patience.stop()

    def _on_acceptable(self, listener: Any) -> None:
        shares = self._shares
        for _ in range(ACCEPTS_PER_TURN):
            if shares is not None:
                now, count = monotonic(), len(self._host.connections)
                shares.note(count, now)
                if not self._is_patient and shares.is_ahead(count, now):
                    self._be_patient()
                    return
            self._is_patient = False
            if not self._accept(listener):
                return

    def _be_patient(self) -> None:
        """Leave those who wait to another front-end for a moment; then one is taken anyway."""
        self.pause()
        self._is_patient = True
        self._patience.start(self._end_patience)

    def _end_patience(self) -> None:
        self._patience.stop()
        self.resume()

    def _accept(self, listener: Any) -> bool:
        """Take one connection; return whether there may be more."""
        host = self._host
        try:
            accepted, peer = listener.accept()
        except OSError as error:
            if error.errno in EXHAUSTED:
                self.pause()  # until the next sweep: the listener stays readable
            return error.errno == errno.ECONNABORTED
        if len(host.connections) >= host.settings.max_connections + RESERVE:
            turn_away(accepted, self._http1.heads)
            return True
        # accept() makes one of gevent's sockets, whose every call goes through Python
        sock = PlainSocket(listener.family, listener.type, listener.proto, accepted.detach())
        sock.setblocking(False)
        if host.tls is not None and listener.family != socket.AF_UNIX:
            sock = TlsSocket(sock, host.tls, self._http1.alpn)
        self._http1.connect(sock, peer)
        return True


def set_options(listener: Any, settings: Settings) -> None:
    """Have accepted connections notice a peer that vanished; they inherit these (tcp(7)).

    An answer that is not acknowledged is given up no sooner than ``send_timeout`` says:
    TCP_USER_TIMEOUT also ends a connection whose client reads nothing.
    """
    if listener.family == socket.AF_UNIX:
        return
    unacknowledged_s = max(20.0, settings.send_timeout)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        (socket.TCP_NODELAY, 1),
        (socket.TCP_KEEPIDLE, 30),
        (socket.TCP_KEEPINTVL, 10),
        (socket.TCP_KEEPCNT, 3),
        (socket.TCP_USER_TIMEOUT, int(unacknowledged_s * 1000)),
    ):
        listener.setsockopt(socket.IPPROTO_TCP, option, value)


def refuse_connections(listener: Any) -> None:
    """Have the kernel ignore who knocks; when the listener is closed, they are refused."""
    if listener.family == socket.AF_UNIX:
        return
    steps = ctypes.create_string_buffer(FIRST_SYN)
    program = struct.pack("@HP", len(FIRST_SYN) // 8, ctypes.addressof(steps))
    with contextlib.suppress(OSError):  # no filters here: a connection may still slip in
        listener.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)


def turn_away(sock: socket.socket, heads: HeadWriter) -> None:
    """Say 503 to a client for whom there is no connection left, and close."""
    response = problem_response(NotReady(), "")
    with contextlib.suppress(OSError):
        sock.setblocking(False)
        sock.send(b"%bConnection: close\r\n\r\n%b" % (heads.head(response), response.body))  # type: ignore[str-format]
    sock.close()
