# SPDX-License-Identifier: Apache-2.0
"""The reading half of a connection: from bytes to whole requests, large bodies by their own way."""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING, Any

from servekit.errors import ClientTooSlow, QueueFull, RequestError
from servekit.frontend.http.expectations import refusal_of_type
from servekit.frontend.http.request_builder import BEGUN, BODY, HEADER, IDLE
from servekit.frontend.http.upload import BodyClock, Upload
from servekit.frontend.http1.parser import HTTP2_PREFACE, READ_BYTES, RequestParser

if TYPE_CHECKING:
    import socket

    from servekit.errors import ServekitError
    from servekit.frontend.http.tls import TlsSocket
    from servekit.frontend.http1.connection import Connection

__all__ = ["Receiver"]

READ = 1
LINGER_BYTES = 65_536  #: read and thrown away of a refused upload


log = logging.getLogger("servekit.frontend")


class Receiver:
    """Reads the socket of the ``Connection`` that owns it, and tells it what has come."""

    __slots__ = (
        "_clock",
        "_connection",
        "_is_reading",
        "_parser",
        "_settings",
        "_socket",
        "_upload",
        "_watcher",
        "is_at_end",
        "linger_bytes",
        "requests",
    )

    def __init__(self, sock: socket.socket | TlsSocket, connection: Connection) -> None:
        """Start reading *sock*, which is non-blocking."""
        self._socket = sock
        self._connection = connection
        self._settings = connection.host.settings
        host = connection.host
        guard = host.guard(connection) if host.guard is not None else None
        self._parser = RequestParser(self._settings, guard, host.pressure)
        self.requests = self._parser.requests  #: whole, in order; the connection takes them
        self._upload: Upload | None = None
        self._clock: BodyClock | None = None  #: of the body under way
        self.linger_bytes = LINGER_BYTES
        self.is_at_end = False  #: the client will send no more
        self._watcher: Any = connection.host.loop.io(sock.fileno(), READ)
        self._is_reading = False
        self.resume()

    @property
    def is_in_request(self) -> bool:
        """A request has begun and is not whole."""
        return self._parser.stage != IDLE or self._upload is not None

    @property
    def headers(self) -> dict[bytes, bytes]:
        """Of the request that has begun, as far as they have come."""
        return self._parser.headers

    @property
    def method(self) -> bytes:
        """Of the request that has begun."""
        return self._parser.method_and_target[0]

    @property
    def target(self) -> bytes:
        """Of the request that has begun, as far as it has come."""
        return self._parser.target

    def pause(self) -> None:
        """Leave what comes to the kernel."""
        if self._is_reading:
            self._is_reading = False
            self._watcher.stop()

    def resume(self) -> None:
        """Read on, unless a body waits for room."""
        if not (self._is_reading or self.is_at_end or self._waits_for_room):
            self._is_reading = True
            self._watcher.start(self._on_readable)

    @property
    def _waits_for_room(self) -> bool:
        upload = self._upload or self._parser.upload
        return upload is not None and upload.is_waiting

    def close(self) -> None:
        """Read no more; the socket is the connection's to close."""
        self.abandon()
        self._watcher.stop()
        self._watcher.close()
        self._parser.close()

    # ------------------------------------------------------------ bytes -> request

    def _on_readable(self) -> None:
        if self._upload is not None:
            self._receive_upload(self._upload)
            return
        connection = self._connection
        try:
            data = self._socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            connection.close()
            return
        if not data:
            self._on_end()
        elif connection.is_refused:
            self._discard(len(data))
        else:
            try:
                self._feed(data)
            except Exception:  # else the loop would go on with a connection that hangs
                log.exception("unexpected error while reading a request")
                connection.close()

    def _feed(self, data: bytes) -> None:
        parser, connection = self._parser, self._connection
        error = parser.feed(data)
        if error is not None:
            behind = parser.behind_preface
            if behind is not None and connection.hand_over(HTTP2_PREFACE, behind):
                return
            connection.refuse(error)
        if self.requests and not connection.is_busy:
            connection.begin(self.requests.popleft())
        if connection.is_busy:
            if self.requests:
                self.pause()
        elif error is None and parser.stage != IDLE and not connection.is_closed:
            self._await_rest()

    def look(self) -> None:
        """Take what has come and no event has told of yet."""
        if self._is_reading:
            self._on_readable()

    def go_on(self) -> None:
        """The last answer is out: see to the request that has begun, if one has, and read on."""
        if self._parser.stage != IDLE:
            self._await_rest()
        if not self._is_reading:
            self.resume()

    def _await_rest(self) -> None:
        """A request is under way: set its clock; a large body goes on by another way."""
        parser, connection = self._parser, self._connection
        now = monotonic()
        if not parser.is_in_body:
            if parser.stage == BEGUN:
                parser.stage = HEADER
                connection.expires = now + self._settings.header_timeout
            return
        if parser.refusal is not None:
            connection.refuse(parser.refusal)
            return
        if parser.stage != BODY:
            parser.stage = BODY
            self._clock = BodyClock(self._settings, now)
            if parser.wants_continue and self._is_answered():
                return
        self._await_body(now, parser.body_bytes)
        if connection.is_closed:
            return
        if parser.declared_bytes >= self._settings.large_body:
            self._start_upload()
        elif parser.declared_bytes < 0 and parser.body_bytes >= self._settings.large_body:
            self._go_on_in_shared_memory()

    def _is_answered(self) -> bool:
        """Ask for the body that a client holds back; or answer without it, and return that."""
        parser, connection = self._parser, self._connection
        way = connection.host.find(*parser.method_and_target, parser.headers)
        if way is None:  # the Flask app reads no bodies
            connection.answer_early(parser.take_head()[0])
            return True
        refusal = refusal_of_type(way, parser.headers)
        if refusal is not None:
            connection.refuse(refusal)
            return True
        connection.send_continue()
        return False

    def _await_body(self, now: float, received: int) -> None:
        assert self._clock is not None
        self._connection.expires = self._clock.expires(now, received)

    def _discard(self, size: int) -> None:
        """Read on a little after a refusal, so that the client gets to read it."""
        self.linger_bytes -= size
        if self.linger_bytes <= 0 and not self._connection.is_sending:
            self._connection.close()

    def _on_end(self) -> None:
        self.is_at_end = True
        self.pause()
        if self.is_in_request and not self._connection.is_refused:
            self._connection.refuse(RequestError("the request ended early"))
        self._connection.on_end()

    # ------------------------------------------------------------ a large body

    def _start_upload(self) -> None:
        """Receive the rest of the body into shared memory, if a worker will read it there."""
        parser, size = self._parser, self._parser.declared_bytes
        batcher = self._connection.host.find(*parser.method_and_target, parser.headers)
        if batcher is None or not batcher.bodies.fits(size):
            return
        head, begun = parser.take_head()
        self._upload = upload = Upload(batcher, head, begun, size)
        self._attend(upload)
        if not upload.is_waiting:
            self._receive_upload(upload)

    def _go_on_in_shared_memory(self) -> None:
        """Lay a body that grows, chunk by chunk, where a worker can read it."""
        parser = self._parser
        if parser.upload is None:
            batcher = self._connection.host.find(*parser.method_and_target, parser.headers)
            if batcher is None or not batcher.bodies.fits(self._settings.max_body):
                return
            parser.start_upload(batcher)
        assert parser.upload is not None
        self._attend(parser.upload)

    def _attend(self, upload: Upload) -> None:
        upload.shed = self._connection.expire
        if upload.is_waiting:
            upload.on_room = self._on_room
            self.pause()  # the client waits with us until there is room

    def _on_room(self) -> None:
        self._clock = BodyClock(self._settings, monotonic())  # the wait was not the client's fault
        self.resume()

    def _receive_upload(self, upload: Upload) -> None:
        try:
            is_whole = upload.receive(self._socket)
        except EOFError:
            self._on_end()
        except OSError:
            self._connection.close()
        else:
            if is_whole:
                self._upload = None
                self._connection.begin(upload.finish())
                if self._connection.is_encrypted and not self._connection.is_closed:
                    self.look()  # what is decrypted already no event will tell of
            else:
                self._await_body(monotonic(), upload.filled)

    def lateness(self) -> ServekitError | None:
        """Return what to tell a client whose time is over; ``None``: nothing, it asked nothing."""
        if self._waits_for_room:
            return QueueFull()
        if self.is_in_request:
            return ClientTooSlow("the request did not arrive whole in time")
        return None

    def abandon(self) -> None:
        """Nobody will wait for the body that is under way."""
        upload, self._upload = self._upload, None
        if upload is not None:
            upload.abandon()
        self._parser.abandon()
