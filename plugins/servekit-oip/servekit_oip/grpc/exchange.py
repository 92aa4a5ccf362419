# SPDX-License-Identifier: Apache-2.0
"""Requests that calls make to their own front-end, and the responses to them."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Final

from gevent.queue import SimpleQueue

from servekit.errors import ServekitError
from servekit.extension import HttpRequest, HttpResponse
from servekit.frontend.transport import MAX_HELD_BYTES, BaseExchange, watched
from servekit_oip.grpc.call import NEVER
from servekit_oip.grpc.codes import GrpcError, StatusCode, code_of
from servekit_oip.grpc.wire import MESSAGE, error_piece, is_error, named, response_piece

if TYPE_CHECKING:
    from servekit.frontend.transport import BodyWriter, OutputStream
    from servekit_oip.grpc.call import GrpcCall

__all__ = [
    "GrpcExchange",
    "InferExchange",
    "PiecesExchange",
    "error_of",
    "request_of",
    "set_timeout",
]

MESSAGE_TYPE: Final = MESSAGE.encode()
TIMEOUT: Final = b"x-request-timeout-ms"
SHOWN: Final = ("retry-after",)  #: fields of responses that become trailers


def request_of(
    call: GrpcCall, target: bytes, body: bytes, method: bytes = b"POST", kind: bytes = MESSAGE_TYPE
) -> HttpRequest:
    """Return a request with the metadata and the deadline of *call*."""
    headers = call.fields.headers.copy()
    if kind:
        headers[b"content-type"] = kind
    set_timeout(headers, call)
    return HttpRequest(method, target, headers, body, True, "2")


def set_timeout(headers: dict[bytes, bytes], call: GrpcCall) -> None:
    """Give a request with *headers* the time that *call* has left."""
    if call.deadline != NEVER:
        headers[TIMEOUT] = b"%d" % max(1, int((call.deadline - monotonic()) * 1000))


def error_of(response: HttpResponse, text: str | None = None) -> GrpcError:
    """Return the error that *response* reports.

    :param text: in place of the body.
    """
    details = bytes(response.body).decode("utf-8", "replace") if text is None else text
    trailers = [(name.lower(), value) for name, value in response.fields if name.lower() in SHOWN]
    if response.request_id:
        trailers.append(("x-request-id", response.request_id))
    return GrpcError(code_of(response.status), details, tuple(trailers))


class GrpcExchange(BaseExchange):
    """One request of a call."""

    __slots__ = ("_call",)

    def __init__(self, call: GrpcCall) -> None:
        """Ask for *call*."""
        super().__init__(call.streams.peer)
        self._call = call

    @property
    def is_encrypted(self) -> bool:
        """Whether the connection uses TLS."""
        return self._call.streams.is_encrypted

    @property
    def subject(self) -> str:
        """Subject of the client's certificate; "" without one."""
        return self._call.streams.subject

    def begin(self, request: HttpRequest) -> None:
        """Let the host answer *request*."""
        host = self._call.streams.host
        self.request = request
        if host.guard is not None and request.refusal is None:
            has_body = bool(request.body)
            verdict = host.guard(self)(request.method, request.target, request.headers, has_body)
            if isinstance(verdict, ServekitError):
                request.refusal = verdict
            elif verdict is not None:
                request.identity = verdict
        host.handle(self, request)

    def send(self, response: HttpResponse) -> None:
        """Take *response*."""
        if self.observers is not None:
            self.observe_end(response.status, len(response.body))
        self.is_closed = True
        self.prediction = self.stream = None
        self.answered(response)

    def answered(self, response: HttpResponse) -> None:
        """Do what *response* means."""
        raise NotImplementedError

    def begin_stream(self, stream: OutputStream, response: HttpResponse) -> BodyWriter:
        """Begin to take the body of *response* piece by piece."""
        raise NotImplementedError

    def reset(self) -> None:
        """Drop the rest of the response."""
        raise NotImplementedError

    def end_stream(self, size: int, status: int = 200) -> None:
        """End the response: its body has been handed over."""
        if self.observers is not None:
            self.observe_end(status, size)
        self.is_closed = True
        self.stream = self.prediction = None

    def close(self) -> None:
        """Drop the request: nobody waits for the response."""
        if self.is_closed:
            return
        self.is_closed = True
        prediction, self.prediction = self.prediction, None
        if prediction is not None:
            prediction.cancel()
        if self.observers is not None:
            self.observe_end(None, 0)


class InferExchange(GrpcExchange):
    """The request of ModelInfer, whose response ends the call."""

    __slots__ = ()

    def answered(self, response: HttpResponse) -> None:
        """End the call with *response*."""
        if response.status != 200:
            self._call.fail(error_of(response))
        elif response.release is None:
            self._call.finish(response.body)
        else:
            self._call.finish(bytes(response.body))
        response.discard()

    def reset(self) -> None:
        """End the call."""
        self.close()
        self._call.fail(GrpcError(StatusCode.UNAVAILABLE, "the response is not taken"))


class PiecesExchange(GrpcExchange):
    """The request of one message of ModelStreamInfer; its response is a queue of messages."""

    __slots__ = ("_buffer", "_held", "_id", "_queue")

    def __init__(self, call: GrpcCall, id_: str) -> None:
        """Ask for *call*.

        :param id_: of the request; errors have it, so that clients know what has failed.
        """
        super().__init__(call)
        self._id = id_
        self._queue: SimpleQueue[bytes | None] = SimpleQueue()
        self._buffer = bytearray()
        self._held = 0  #: bytes in the queue

    def next(self) -> bytes | None:
        """Return the next message, when it is there; ``None``: there are no more."""
        piece: bytes | None = self._queue.get()
        self._held -= len(piece or b"")
        return piece

    def put(self, piece: bytes) -> None:
        """Add a message."""
        if self._id and is_error(piece):
            piece = named(piece, self._id)
        self._held += len(piece)
        self._queue.put(piece)

    def answered(self, response: HttpResponse) -> None:
        """Add the only message."""
        body = bytes(response.body)
        response.discard()
        if response.status == 200:
            self.put(response_piece(body))
        else:
            self.put(error_piece(body.decode("utf-8", "replace")))
        self.end()

    def begin_stream(self, stream: OutputStream, response: HttpResponse) -> BodyWriter:
        """Add the messages in the body of *response*, each after its length, as they come."""
        self.stream = stream
        head = self.filter_stream(response) if self.filters else response
        return watched(head, self)

    @property
    def is_waiting(self) -> bool:
        """Whether messages wait for the client."""
        return self._held > 0

    def write(self, piece: bytes) -> bool:
        """Add the messages that are whole; return whether the client keeps up."""
        buffer = self._buffer
        buffer += piece
        while len(buffer) >= 4 and len(buffer) >= (end := 4 + int.from_bytes(buffer[:4], "big")):
            self.put(bytes(buffer[4:end]))
            del buffer[:end]
        return self._held <= MAX_HELD_BYTES

    def end(self) -> None:
        """Add the end."""
        self._queue.put(None)

    def reset(self) -> None:
        """End with an error: the client does not keep up."""
        self.close()
        self.put(error_piece("the client reads too slowly"))
        self.end()
