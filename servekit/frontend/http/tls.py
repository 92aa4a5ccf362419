# SPDX-License-Identifier: Apache-2.0
"""TLS under a connection: a socket's methods over OpenSSL's memory, never blocking."""

from __future__ import annotations

import contextlib
import re
import ssl
from typing import TYPE_CHECKING, Any

from servekit.frontend.http.client_hello import NO_PROTOCOL, ClientHello

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterable

    Buffer = bytes | memoryview

__all__ = ["TlsSocket"]

RECORD_BYTES = 17_408  #: the largest record on the wire
PIECE_BYTES = 65_536  #: encrypted at once; the part that the kernel does not take is kept
HELD_BYTES = 4 * PIECE_BYTES  #: kept for a client that causes replies of TLS and reads none
SPECIAL = re.compile(r"[\\,=+\x00-\x1f]")  #: escaped in a subject: a name must not look like two
ESCAPED = r"\\\g<0>"
NOTHING_YET = (ssl.SSLWantReadError,)
ENDED = (ssl.SSLZeroReturnError, ssl.SSLEOFError)


class TlsSocket:
    """Replaces a non-blocking socket; the handshake happens as data is read.

    No event reports data that is decrypted already, so a reader has to take all of it: ``recv``
    does, and after a ``recv_into`` that filled its buffer there may be more.
    """

    __slots__ = (
        *("_encrypted", "_held", "_hello", "_incoming", "_object", "_outgoing", "_socket"),
        *("_spoken",),
    )

    def __init__(
        self, sock: socket.socket, context: ssl.SSLContext, spoken: Iterable[str] = ()
    ) -> None:
        """Begin as the server's end of *sock*, which belongs to the object from now on.

        :param spoken: protocols; a client that offers any by ALPN has to offer one of these.
        """
        self._socket = sock
        self._spoken = spoken
        self._hello: ClientHello | None = ClientHello()  #: until it has arrived
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._held = b""  #: encrypted bytes that the kernel has not taken
        self._encrypted = 0  #: bytes in ``_held`` that the caller still counts as unsent

    def fileno(self) -> int:
        """Return the descriptor to watch."""
        return self._socket.fileno()

    def setsockopt(self, *option: Any) -> None:
        """Set an option of the socket."""
        self._socket.setsockopt(*option)

    @property
    def subject(self) -> str:
        """Subject of the client's certificate, ``commonName=ada,organizationName=x``, or ""."""
        certificate: Any = self._object.getpeercert()
        named = [each for name in (certificate or {}).get("subject", ()) for each in name]
        return ",".join(f"{kind}={SPECIAL.sub(ESCAPED, text)}" for kind, text in named)

    @property
    def protocol(self) -> str:
        """The protocol that ALPN agreed on; "" if the client offered none."""
        return self._object.selected_alpn_protocol() or ""

    # ------------------------------------------------------------ reading

    def recv(self, size: int) -> bytes:
        """Return everything that has arrived, at most *size* bytes; b"" at the end.

        :raises BlockingIOError: nothing that can be decrypted has arrived.
        """
        with contextlib.suppress(BlockingIOError):
            self._fill(size - RECORD_BYTES)
        pieces, is_end = [], False
        try:
            while not is_end:
                pieces.append(self._object.read(size))
                is_end = not pieces[-1]
        except NOTHING_YET:
            pass
        except ENDED:
            is_end = True
        finally:
            self._flush()
        data = b"".join(pieces)
        if not data and not is_end:
            raise BlockingIOError
        return data

    def recv_into(self, buffer: memoryview) -> int:
        """Fill *buffer* with what has arrived; return the count, 0 at the end."""
        count = self._take(buffer)
        if count == 0:
            is_end = self._fill(PIECE_BYTES)
            count = self._take(buffer)
            if count == 0 and not is_end:
                raise BlockingIOError
        return count

    def _fill(self, size: int) -> bool:
        """Hand OpenSSL what the kernel has; return whether it was the end."""
        data = self._socket.recv(size)
        if self._hello is not None:
            self._judge(self._hello.offers(data))
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()
        return not data

    def _judge(self, offered: list[bytes] | None) -> None:
        """Refuse a client without a common protocol (RFC 7301 3.2); OpenSSL would accept it."""
        if offered is None:
            return
        self._hello = None
        if offered and not {name.encode() for name in self._spoken} & set(offered):
            with contextlib.suppress(OSError):
                self._socket.send(NO_PROTOCOL)
            raise ConnectionAbortedError("the client offers no supported protocol")

    def _take(self, buffer: memoryview) -> int:
        count = 0
        try:
            while count < len(buffer):
                taken: Any = self._object.read(len(buffer) - count, buffer[count:])
                if not taken:
                    break
                count += taken
        except (*NOTHING_YET, *ENDED):
            pass
        finally:
            self._flush()
        return count

    # ------------------------------------------------------------ writing

    def send(self, data: Buffer) -> int:
        """Return how many bytes of *data* the kernel has taken.

        The next call has to begin with the rest of *data*: some of it may be encrypted already.

        :raises BlockingIOError: it has taken none.
        """
        view, sent = memoryview(data), 0
        while self._flush():
            sent += self._encrypted
            piece = view[sent : sent + PIECE_BYTES]
            self._encrypted = len(piece)
            if not piece:
                break
            self._object.write(piece)
        if not sent and view:
            raise BlockingIOError
        return sent

    def sendmsg(self, buffers: Iterable[Buffer]) -> int:
        """Send *buffers* one after the other, like ``send``."""
        total = 0
        for buffer in buffers:
            try:
                sent = self.send(buffer)
            except BlockingIOError:
                if not total:
                    raise
                break
            total += sent
            if sent < len(buffer):
                break
        return total

    def _flush(self) -> bool:
        """Send encrypted bytes; return whether the kernel has taken all of them."""
        if self._outgoing.pending:
            self._held += self._outgoing.read()
        if self._held:
            with contextlib.suppress(BlockingIOError):
                self._held = self._held[self._socket.send(self._held) :]
            if len(self._held) > HELD_BYTES:
                raise ConnectionAbortedError("the client reads nothing")
        return not self._held

    # ------------------------------------------------------------ the end

    def shutdown(self, how: int) -> None:
        """End the TLS session, then shut the socket down."""
        self._end_session()
        self._socket.shutdown(how)

    def close(self) -> None:
        """Close at once."""
        self._end_session()
        self._socket.close()

    def _end_session(self) -> None:
        with contextlib.suppress(OSError):  # the handshake is not over, or the connection is broken
            self._object.unwrap()
        with contextlib.suppress(OSError):
            self._flush()
