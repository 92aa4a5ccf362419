# SPDX-License-Identifier: Apache-2.0
"""Sockets of the load generator. Runs in: a load generator; ``tls_context`` also elsewhere."""

import socket
import ssl
from time import monotonic

from servekit_bench.load.answers import HttpParserError, ParsedAnswer
from servekit_bench.load.plan import Target, Tls

__all__ = ["LoadConnection", "connect", "kind_of", "tls_context"]


class LoadConnection:
    """A socket, and the request on it."""

    __slots__ = ("answer", "due", "freed", "is_busy", "recv", "rest", "send", "sock")

    def __init__(self, sock: socket.socket) -> None:
        self.sock, self.recv, self.send = sock, sock.recv, sock.send
        self.due = 0.0  #: when its request should have been sent
        self.freed = monotonic()  #: when its last request was answered
        self.is_busy = False
        self.rest: memoryview | None = None  #: the part of the request that could not be sent yet
        self.answer: ParsedAnswer | None = None  #: an answer that does not go the fast way


def connect(
    target: Target, tls: ssl.SSLContext | None, timeout_s: float, *, is_waiting: bool
) -> socket.socket:
    """Return a socket that does not block; without *is_waiting* perhaps still connecting."""
    if target.unix_path:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(timeout_s)
        sock.connect(target.unix_path)
    elif is_waiting or tls:
        sock = socket.create_connection((target.host, target.port), timeout_s)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    else:
        family, kind, protocol, _, address = socket.getaddrinfo(
            target.host, target.port, type=socket.SOCK_STREAM
        )[0]
        sock = socket.socket(family, kind, protocol)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        sock.connect_ex(address)
    if tls:
        sock = tls.wrap_socket(sock, server_hostname=target.host)
    sock.setblocking(False)
    return sock


def tls_context(tls: Tls) -> ssl.SSLContext:
    """Return the context of the connections.

    :raises OSError: a file cannot be read, or is not PEM.
    """
    context = ssl.create_default_context(cafile=tls.ca or None)
    if not tls.is_verified:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if tls.certificate:
        context.load_cert_chain(tls.certificate, tls.key or None)
    return context


def kind_of(error: Exception) -> str:
    """Return one word for what went wrong with a connection."""
    if isinstance(error, HttpParserError):
        return "not HTTP"
    if isinstance(error, ConnectionRefusedError):
        return "refused"
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        return "reset"
    return "closed" if isinstance(error, ConnectionAbortedError) else "connection"
