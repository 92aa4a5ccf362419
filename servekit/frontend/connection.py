# SPDX-License-Identifier: Apache-2.0
"""One HTTP/1.1 connection: requests in, answers out, one at a time and in order.

Runs as callbacks of the event loop, never blocks. A connection whose framing is in doubt
is answered once more and closed.
"""

from __future__ import annotations

import socket
from time import monotonic
from typing import TYPE_CHECKING, Any

from servekit.errors import ClientTooSlow, QueueFull, RequestError, ServekitError
from servekit.frontend.answer import CONTINUE, problem_answer
from servekit.frontend.bodies import Upload
from servekit.frontend.parsing import RequestParser
from servekit.frontend.sending import JOIN_BYTES, Sender

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.frontend.batcher import Batcher
    from servekit.frontend.parsing import HttpRequest
    from servekit.frontend.server import FrontEnd
    from servekit.frontend.task import Task

__all__ = ["Connection"]

READ = 1
READ_BYTES = 65_536
LINGER_S = 2.0  #: how long a refused upload is read on, so that the client sees the refusal
LINGER_BYTES = 65_536
NEVER = float("inf")


class Connection:
    """Owns one accepted socket."""

    __slots__ = (
        "_extra_lines",
        "_is_closed",
        "_is_half_closed",
        "_is_reading",
        "_is_refused",
        "_keeps_alive",
        "_linger_bytes",
        "_parser",
        "_reader",
        "_sender",
        "_socket",
        "_upload",
        "_version",
        "expires",
        "front_end",
        "is_busy",
        "peer",
        "task",
    )

    def __init__(self, sock: socket.socket, peer: Any, front_end: FrontEnd) -> None:
        """Start reading *sock*, which is non-blocking and ours from now on."""
        self._socket = sock
        self.front_end = front_end
        self.peer = peer
        access = front_end.access
        self._parser = RequestParser(front_end.settings, access.guard(self) if access else None)
        self._sender = Sender(sock, front_end.loop, self._finish, self.close)
        self._upload: Upload | None = None
        self._is_closed = self._is_half_closed = self._is_refused = False
        self._linger_bytes = LINGER_BYTES
        self._keeps_alive = True
        self._extra_lines = b""  #: header lines of the next answer, for a browser
        self.is_busy = False  #: a request is being answered
        self.task: Task | None = None  #: the prediction being answered
        self.expires = monotonic() + front_end.settings.header_timeout
        self._reader = front_end.loop.io(sock.fileno(), READ)
        self._reader.start(self._on_readable)
        self._is_reading = True

    # ------------------------------------------------------------ bytes -> request

    def _on_readable(self) -> None:
        if self._upload is not None:
            self._receive_upload()
            return
        try:
            data = self._socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        if not data:
            self._on_end()
        elif self._is_refused:
            self._discard(len(data))
        else:
            try:
                self._feed(data)
            except Exception:  # noqa: BLE001 - else the loop would go on with a connection that hangs
                self.front_end.log_exception("while reading a request")
                self.close()

    def _feed(self, data: bytes) -> None:
        parser = self._parser
        error = parser.feed(data)
        if parser.requests and not self.is_busy:
            self._begin(parser.requests.popleft())
        if error is not None:
            self._refuse(error)
        elif not self.is_busy:
            if parser.received and not self._is_closed:
                self._await_rest(is_first=parser.received == len(data))
        elif parser.requests:
            self._pause()

    def _await_rest(self, *, is_first: bool) -> None:
        """A request is under way: set its clock; a large body goes on by another way."""
        parser, settings = self._parser, self.front_end.settings
        if not parser.is_in_body:
            if is_first:
                self.expires = monotonic() + settings.header_timeout
            return
        if parser.refusal is not None:
            self._refuse(parser.refusal)
            return
        self.expires = monotonic() + settings.body_timeout
        if parser.wants_continue:
            parser.wants_continue = False
            self._sender.send(CONTINUE)
        if parser.declared_bytes >= settings.large_body and not self._is_closed:
            self._start_upload()

    def _begin(self, request: HttpRequest, batcher: Batcher | None = None) -> None:
        self.is_busy = True
        self.expires = NEVER
        self._keeps_alive = request.keeps_alive
        self._version = request.version
        if self.front_end.cors is not None:
            self._extra_lines = self.front_end.cors.lines(request.headers)
        self.front_end.route(self, request, batcher)

    # ------------------------------------------------------------ a large body

    def _start_upload(self) -> None:
        """Receive the rest of the body into shared memory, if a worker will read it there."""
        parser = self._parser
        batcher = self.front_end.router.find(*parser.method_and_target)
        size = parser.declared_bytes
        if batcher is None or not batcher.bodies.fits(size):
            return
        head, begun = parser.take_head()
        self._upload = Upload(batcher, head, begun, size)
        if self._upload.slab is None:
            self._upload.on_room = self._resume
            self._pause()  # the client waits with us until there is room
        else:
            self._receive_upload()

    def _receive_upload(self) -> None:
        upload = self._upload
        assert upload is not None
        try:
            is_whole = upload.receive(self._socket)
        except EOFError:
            self._on_end()
            return
        except OSError:
            self.close()
            return
        if is_whole:
            self._upload = None
            self._begin(upload.finish(), upload.batcher)
        else:
            self.expires = monotonic() + self.front_end.settings.body_timeout

    def _abandon_upload(self) -> None:
        upload, self._upload = self._upload, None
        if upload is not None:
            upload.abandon()

    # ------------------------------------------------------------ answer -> bytes

    def answer(
        self, head: bytes, body: bytes | memoryview, release: Callable[[], None] | None = None
    ) -> None:
        """Write one answer.

        :param head: the status line and header lines, without the empty line.
        :param release: called once *body* is out, or nobody will read it.
        """
        if self._is_closed:
            if release is not None:
                release()
            return
        if not self._keeps_alive or self.front_end.is_draining:
            self._keeps_alive = False
            head += b"Connection: close\r\n"
        elif self._version == "1.0":
            head += b"Connection: keep-alive\r\n"
        if self._extra_lines:
            head += self._extra_lines
        if release is None and len(body) < JOIN_BYTES:
            self._sender.send(b"%b\r\n%b" % (head, body))  # type: ignore[str-format]  # %b takes any buffer
        else:
            self._sender.send_with(head + b"\r\n", body, release)
        self._finish()

    def answer_problem(self, error: ServekitError, request_id: str) -> None:
        """Write the problem details of *error*."""
        if self._is_closed:
            return
        if self.front_end.is_draining:
            self._keeps_alive = False
        lines = self.front_end.heads.date + self._extra_lines
        self._sender.send(problem_answer(error, request_id, lines, closes=not self._keeps_alive))
        self._finish()

    def _finish(self) -> None:
        """The answer is out, or waits to be: take the next request, or close."""
        self.is_busy = False
        self.task = None
        if self._is_closed:
            return
        if self._sender.rest:
            self.expires = monotonic() + self.front_end.settings.send_timeout
            self._pause()  # the sender calls us again
        elif not self._keeps_alive or self._is_half_closed:
            self._end()
        elif self._parser.requests:
            self.is_busy = True  # by way of the loop: a long pipeline must not recurse
            self.front_end.loop.run_callback(self._begin, self._parser.requests.popleft())
        else:
            self.expires = monotonic() + self.front_end.settings.keep_alive
            if self._parser.received:
                self._await_rest(is_first=True)
            if not self._is_reading and self._upload is None:
                self._resume()

    # ------------------------------------------------------------ the connection's end

    def _refuse(self, error: ServekitError) -> None:
        """Answer a request that we will not follow to its end, and take no other."""
        self._is_refused = True
        self._keeps_alive = False
        self._abandon_upload()
        if self.is_busy:
            self._pause()
            self._parser.requests.clear()  # the answer under way goes out, then we close
        elif not self._is_closed:
            if self.front_end.cors is not None:
                self._extra_lines = self.front_end.cors.lines(self._parser.headers)
            self.answer_problem(error, self.front_end.next_request_id())

    def _end(self) -> None:
        """Close after our last answer; a client still sending gets the chance to read it."""
        if not self._is_refused or self._is_half_closed:
            self.close()
            return
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.close()
            return
        self.expires = monotonic() + LINGER_S
        self._resume()

    def _discard(self, size: int) -> None:
        self._linger_bytes -= size
        if self._linger_bytes <= 0 and not self._sender.rest:
            self.close()

    def _on_end(self) -> None:
        """The client will send no more: its task is dropped unless a worker has it already."""
        self._is_half_closed = True
        self._pause()
        is_cut = self._parser.received or self._upload is not None
        if self.task is not None and not self.task.is_sent:
            self.close()
        elif is_cut and not self._is_refused and not self.is_busy:
            self._refuse(RequestError("the request ended early"))
        elif not self.is_busy and not self._sender.rest:
            self.close()

    def expire(self) -> None:
        """The client let a timeout pass, or there was no room for its body in time."""
        if self._is_refused or self._sender.rest:
            self.close()
        elif self._upload is not None and self._upload.slab is None:
            self._refuse(QueueFull())
        elif self._parser.received or self._upload is not None:
            self._refuse(ClientTooSlow("the request did not arrive whole in time"))
        else:
            self.close()

    def close(self) -> None:
        """Close at once; nobody waits for the answer any more."""
        if self._is_closed:
            return
        self._is_closed = True
        if self.task is not None:
            self.task.cancel()
            self.task = None
        self._abandon_upload()
        self._reader.stop()
        self._reader.close()
        self._sender.close()
        self._parser.close()
        self._socket.close()
        self.front_end.connections.discard(self)

    def close_if_idle(self) -> None:
        """Close unless a request is under way; one that is will be the last."""
        is_idle = not self.is_busy and not self._sender.rest and self._upload is None
        if is_idle and not self._parser.received:
            self.close()

    def _pause(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._reader.stop()

    def _resume(self) -> None:
        if not self._is_reading and not self._is_closed:
            self._is_reading = True
            self._reader.start(self._on_readable)
