# SPDX-License-Identifier: Apache-2.0
"""The limits of a gRPC server, which all of its connections share."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit_oip.grpc.call import GrpcCall
    from servekit_oip.grpc.http2 import GrpcConnection

__all__ = ["ServiceLimits", "notice_lost_peers"]


class ServiceLimits:
    """The limits of a server, and its handlers."""

    def __init__(
        self,
        max_message: int,
        max_header: int,
        header_timeout_s: float,
        send_timeout_s: float,
        answer: Callable[[GrpcCall], object],
        begin: Callable[[GrpcCall], object],
    ) -> None:
        """Have *answer* called with each call whose message has arrived.

        :param header_timeout_s: from the connection to the preface of HTTP/2.
        :param send_timeout_s: how long a client may take nothing of the data that waits for it.
        :param begin: called when the header fields of a call have arrived.
        """
        self.max_message, self.max_header = max_message, max_header
        self.header_timeout_s, self.send_timeout_s = header_timeout_s, send_timeout_s
        self.answer, self.begin = answer, begin
        self.connections: set[GrpcConnection] = set()


def notice_lost_peers(sock: socket.socket, timeout_s: float) -> None:
    """Have the kernel end the connection of *sock* when its peer has vanished (tcp(7))."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        (socket.TCP_KEEPIDLE, 30),
        (socket.TCP_KEEPINTVL, 10),
        (socket.TCP_KEEPCNT, 3),
        (socket.TCP_USER_TIMEOUT, int(max(20.0, timeout_s) * 1000)),
    ):
        sock.setsockopt(socket.IPPROTO_TCP, option, value)
