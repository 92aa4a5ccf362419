# SPDX-License-Identifier: Apache-2.0
"""Copies of calls, made while they are answered, and the memory that these may take.

Runs in: front-end, in its event loop; ``CallCopy.recorded`` in a thread.
"""

from __future__ import annotations

from time import monotonic, time
from typing import TYPE_CHECKING, Final

from servekit_record.recording import RecordedCall, RecordedStream, message_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from servekit.extension import Exchange, HttpRequest, HttpResponse
    from servekit_record.order import RecordingOrder

__all__ = ["CALL_BYTES", "SECRETS", "CallCopy", "CopyMemory", "is_secret"]

CALL_BYTES: Final = 4 << 20  #: larger bodies are not recorded
OVERHEAD_BYTES: Final = 2048  #: of a call besides its bodies: headers, the objects themselves
#: parts of the names of header fields that are never recorded
SECRETS: Final = ("auth", "cookie", "key", "secret", "token", "password", "credential", "signature")
CLIENT_LEFT: Final = "the client left"
TOO_LARGE: Final = f"larger than {CALL_BYTES >> 20} MiB"
NO_MEMORY: Final = "too many calls to be kept"


def is_secret(field: str, redacted: Iterable[str]) -> bool:
    """Return whether the header *field*, in lower case, is left out of recordings."""
    return field in redacted or any(part in field for part in SECRETS)


class CopyMemory:
    """Counts the bytes of the copies of one recording that are not in its file yet."""

    def __init__(self, limit: int) -> None:
        """Allow *limit* bytes."""
        self._limit = limit
        self.held = 0

    def take(self, size: int) -> bool:
        """Count *size* more bytes, if there is room for them."""
        has_room = self.held + size <= self._limit
        self.held += size if has_room else 0
        return has_room

    def give_back(self, size: int) -> None:
        """Count *size* fewer bytes."""
        self.held -= size

    def close(self) -> None:
        """Take nothing more: the recording is over."""
        self._limit = 0


class CallCopy:
    """One call, from its request to the end of its response."""

    def __init__(
        self,
        order: RecordingOrder,
        memory: CopyMemory,
        request: HttpRequest,
        keep: Callable[[CallCopy], None],
    ) -> None:
        """Copy *request*; *memory* has room for it.

        :param keep: gets the copy when the response is over, if it is to be recorded.
        """
        self.order, self._memory, self._keep = order, memory, keep
        self._request = request
        self._headers, self._asked = [*request.headers.items()], bytes(request.content)
        self._held = self.size_of(request)
        self._time_s, self._began = time(), monotonic()
        self._duration_s = 0.0
        self.is_native = True  #: the path names the model
        self._model, self._version = "", ""
        self._status, self._is_stream = 0, False
        self._fields: list[tuple[str, str]] | None = None  #: ``None``: no model has answered yet
        self._answered = bytearray()
        self._stream = RecordedStream()

    @staticmethod
    def size_of(request: HttpRequest) -> int:
        """Return how many bytes a copy of *request* takes."""
        return len(request.content) + OVERHEAD_BYTES

    def follow(self, exchange: Exchange, name_model: Callable[[HttpRequest], str]) -> None:
        """Copy the response on *exchange* when it comes.

        :param name_model: tells which model answers.
        """
        exchange.add_filter(lambda response: self._on_response(response, exchange, name_model))
        exchange.add_observer(self._on_end)

    def _on_response(
        self, response: HttpResponse, exchange: Exchange, name_model: Callable[[HttpRequest], str]
    ) -> HttpResponse:
        """Copy *response*, if the model of the order has answered; of a stream, the head."""
        version, model = exchange.model_version, name_model(self._request)
        if version and self.order.model in ("", model) and self._has_room(len(response.body)):
            self._duration_s = monotonic() - self._began
            self._model, self._version = model, version.decode("latin-1")
            self._status, self._is_stream = response.status, response.is_streamed
            self._fields = _fields_of(response)
            self._answered += response.body
            if response.is_streamed:
                response.watchers = (*response.watchers, self._on_piece)
        return response

    def _on_piece(self, piece: bytes) -> None:
        """Copy a *piece* of a streamed body."""
        stream = self._stream
        if stream.first_s is None:
            stream.first_s = monotonic() - self._began
        if stream.incomplete:
            return
        if self._has_room(len(piece)):
            self._answered += piece
        else:
            is_large = len(self._answered) + len(piece) > CALL_BYTES
            stream.incomplete = TOO_LARGE if is_large else NO_MEMORY
            self._give_back(len(self._answered))
            self._answered = bytearray()

    def _on_end(self, status: int | None, _size: int) -> None:
        """Hand the copy over; *status* is ``None`` if the client disconnected."""
        if self._fields is None:
            self.release()
            return
        if self._is_stream:
            self._duration_s = monotonic() - self._began
            if status is None:
                self._stream.incomplete = self._stream.incomplete or CLIENT_LEFT
        self._keep(self)

    def _has_room(self, size: int) -> bool:
        """Count *size* more bytes of the response, if they may be kept."""
        is_small = len(self._answered) + size <= CALL_BYTES
        if not (is_small and self._memory.take(size)):
            return False
        self._held += size
        return True

    def _give_back(self, size: int) -> None:
        self._held -= size
        self._memory.give_back(size)

    def release(self) -> None:
        """Give all memory back: the call is written, or will not be."""
        self._give_back(self._held)
        self._answered = bytearray()

    def recorded(self) -> RecordedCall:
        """Return the call as recordings have it, without secret header fields."""
        request, redacted = self._request, self.order.redact
        asked = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in self._headers)
        return RecordedCall(
            time_s=self._time_s,
            request_id=request.request_id,
            method=request.method.decode("latin-1"),
            target=request.target.decode("latin-1"),
            model=self._model,
            is_native=self.is_native,
            version=self._version,
            request=message_of(_without_secrets(asked, redacted), self._asked),
            status=self._status,
            response=message_of(
                _without_secrets(self._fields or (), redacted), bytes(self._answered)
            ),
            is_stream=self._is_stream,
            stream=self._stream if self._is_stream else None,
            duration_s=self._duration_s,
        )


def _fields_of(response: HttpResponse) -> list[tuple[str, str]]:
    found = [(name.lower(), value) for name, value in response.fields]
    if response.media_type:
        found.append(("content-type", response.media_type))
    if response.timing:
        found.append(("server-timing", response.timing.decode("latin-1")))
    return found


def _without_secrets(fields: Iterable[tuple[str, str]], redacted: Iterable[str]) -> dict[str, str]:
    return {name: value for name, value in fields if not is_secret(name, redacted)}
