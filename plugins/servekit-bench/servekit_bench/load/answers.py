# SPDX-License-Identifier: Apache-2.0
"""One answer that is long, chunked, a stream or an error. Runs in: a load generator."""

from typing import Final

from httptools import HttpParserError, HttpResponseParser

__all__ = ["HttpParserError", "ParsedAnswer"]

KEPT_BYTES: Final = 2000  #: first bytes of the body, for the message of an error
#: how outputs end in the formats of streams
SEPARATORS: Final = {
    b"text/event-stream": b"\n\n",
    b"application/x-ndjson": b"\n",
    b"application/jsonl": b"\n",
}
ERRORS: Final = (b"event: error", b'{"error":')  #: how a stream says that it failed
ENDS: Final = (b"data: [DONE]", b"event: end", b":")  #: events that are not outputs, and comments


class ParsedAnswer:
    """An answer as it arrives, parsed by llhttp."""

    def __init__(self) -> None:
        self.parser = HttpResponseParser(self)
        self.is_complete = False
        self.text = b""  #: the first bytes of the body
        self.received = 0  #: bytes
        self.outputs = 0  #: of a stream
        self.first_s = self.last_s = 0.0  #: when its outputs came; 0 before the first
        self.gaps_s: list[float] = []  #: between outputs
        self.error = ""  #: the event that says that the stream failed
        self._separator: bytes | None = None
        self._rest = b""
        self._new = 0

    def feed(self, data: bytes, now: float) -> None:
        """Take *data*, which was received at *now*.

        :raises HttpParserError: it is not HTTP.
        """
        self.received += len(data)
        self.parser.feed_data(data)
        if self._new:
            self._note(now)

    def end(self) -> bool:
        """Take the end of the connection; return whether it was the end of the answer."""
        is_open_ended = not (self._has_length or self.is_complete)
        return self.received > 0 and is_open_ended and self.is_started

    @property
    def status(self) -> int:
        """The status code."""
        return int(self.parser.get_status_code())

    @property
    def is_kept_alive(self) -> bool:
        """Whether the connection can carry the next request."""
        return bool(self.parser.should_keep_alive())

    # ------------------------------------------------------------ called by llhttp

    is_started = False  #: the head has arrived
    _has_length = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Notice streams, and answers that end with their connection."""
        lowered = name.lower()
        if lowered in (b"content-length", b"transfer-encoding"):
            self._has_length = True
        elif lowered == b"content-type":
            self._separator = SEPARATORS.get(value.partition(b";")[0].strip().lower())

    def on_headers_complete(self) -> None:
        """Note that the head is there."""
        self.is_started = True

    def on_body(self, data: bytes) -> None:
        """Keep the begin of the body, and count the outputs of a stream."""
        if len(self.text) < KEPT_BYTES:
            self.text += data[: KEPT_BYTES - len(self.text)]
        if self._separator is not None:
            *whole, self._rest = (self._rest + data).split(self._separator)
            for each in whole:
                self._take(each.strip())

    def on_message_complete(self) -> None:
        """Note the end; an interim answer (1xx) is not the end."""
        self.is_complete = self.status >= 200

    def _take(self, event: bytes) -> None:
        """Take an event, or a line, of a stream."""
        if event.startswith(ERRORS):
            self.error = event.decode(errors="replace")
        elif event and not event.startswith(ENDS):
            self._new += 1

    def _note(self, now: float) -> None:
        """Note when outputs came; those that came in one piece have no gap between them."""
        if self.outputs:
            self.gaps_s.append(now - self.last_s)
        else:
            self.first_s = now
        self.gaps_s += [0.0] * (self._new - 1)
        self.outputs += self._new
        self.last_s, self._new = now, 0
