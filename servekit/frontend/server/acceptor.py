# SPDX-License-Identifier: Apache-2.0
"""Accepts the connections of one front-end, while there is room for them."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import socket
import struct
from typing import TYPE_CHECKING, Any

import gevent
from gevent.monkey import get_original

from servekit.errors import NotReady
from servekit.extension.problems import problem_response
from servekit.frontend.http.tls import TlsSocket
from servekit.frontend.http1.connection import Http1Connection
from servekit.frontend.http1.exchange import CLOSE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from servekit.frontend.http1.listener import Http1Listener
    from servekit.settings import Settings

__all__ = ["Acceptor"]

READ = 1
ACCEPTS_PER_TURN = 64
YIELD_S = 0.001  #: how long one that has more connections than another leaves new ones to it
RESERVE = 64  #: connections over ``max_connections``, for one request each: health checks
HANDSHAKES_S = 0.02  #: for handshakes that had begun when the listener began to refuse
#: errors that the next accept would get, too: there is no descriptor or no memory left
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
SO_ATTACH_FILTER = 26  # socket(7)
# classic BPF on the TCP header: drop SYN without ACK, keep everything else
FIRST_SYN = b"".join(
    struct.pack("=HBBI", *step)
    for step in ((0x30, 0, 0, 13), (0x54, 0, 0, 0x12), (0x15, 0, 1, 0x02), (0x06, 0, 0, 0),
                 (0x06, 0, 0, 0xFFFFFFFF))
)  # fmt: skip

PlainSocket: Any = get_original("socket", "socket")


class Acceptor:
    """Owns this process's copies of the listeners."""

    def __init__(self, http1: Http1Listener) -> None:
        """Accept nothing yet.

        :param http1: what the accepted connections share.
        """
        self._http1 = http1
        self._host = http1.host
        self._watchers: list[tuple[Any, Any]] = []
        self._is_paused = False
        self._yield_timer: Any = self._host.loop.timer(YIELD_S)
        self._has_yielded = False  #: another front-end had the chance to take the next connection

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
        """Leave new connections in the kernel's backlog."""
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
        """Accept no more connections.

        :param is_last: nobody else accepts from them. So the kernel is made to drop new
            connections, and those in its backlog are accepted: closing would reset them.
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
        self._yield_timer.stop()

    def _on_acceptable(self, listener: Any) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            if not self._has_yielded and self._host.connections.is_ahead():
                self._yield()
                return
            self._has_yielded = False
            if not self._accept(listener):
                return

    def _yield(self) -> None:
        """Leave new connections to another front-end for a moment; then take one anyway."""
        self.pause()
        self._has_yielded = True
        self._yield_timer.start(self._end_yield)

    def _end_yield(self) -> None:
        self._yield_timer.stop()
        self.resume()

    def _accept(self, listener: Any) -> bool:
        """Accept one connection; return whether there may be more."""
        host = self._host
        try:
            accepted, peer = listener.accept()
        except OSError as error:
            if error.errno in EXHAUSTED:
                self.pause()  # until the next sweep: the listener stays readable
            return error.errno == errno.ECONNABORTED
        if len(host.connections) >= host.settings.max_connections + RESERVE:
            self._turn_away(accepted)
            return True
        # accept() makes one of gevent's sockets, whose every call goes through Python
        sock = PlainSocket(listener.family, listener.type, listener.proto, accepted.detach())
        sock.setblocking(False)
        if host.tls is not None and listener.family != socket.AF_UNIX:
            sock = TlsSocket(sock, host.tls, self._http1.alpn)
        host.connections.add(Http1Connection(sock, peer, self._http1))
        return True

    def _turn_away(self, sock: socket.socket) -> None:
        """Respond with a 503 and close: there are too many connections."""
        response = problem_response(NotReady(), "")
        assert isinstance(response.body, bytes)
        with contextlib.suppress(OSError):
            sock.setblocking(False)
            sock.send(self._http1.encoder.encode(response, CLOSE, response.body))
        sock.close()


def set_options(listener: Any, settings: Settings) -> None:
    """Let accepted connections notice a peer that vanished: they inherit these (tcp(7)).

    TCP_USER_TIMEOUT also ends a connection whose client reads nothing, which is why it is at least
    ``send_timeout``.
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
    """Let the kernel drop incoming SYNs; when the listener is closed, it refuses them."""
    if listener.family == socket.AF_UNIX:
        return
    steps = ctypes.create_string_buffer(FIRST_SYN)
    program = struct.pack("@HP", len(FIRST_SYN) // 8, ctypes.addressof(steps))
    with contextlib.suppress(OSError):  # filters are not available: a connection may still slip in
        listener.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
