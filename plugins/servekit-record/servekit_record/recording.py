# SPDX-License-Identifier: Apache-2.0
"""A recording: a file with one call in each line, as JSON.

The first line is a ``RecordingHead``, each other a ``RecordedCall``: a request and its response.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "NotARecording",
    "RecordedCall",
    "RecordedMessage",
    "RecordedStream",
    "RecordingHead",
    "line_of",
    "message_of",
    "read_calls",
]

FORMAT = 1

_encode = msgspec.json.Encoder().encode


class NotARecording(Exception):
    """A file is not a recording; the message says why, and in which line."""


class RecordingHead(Struct, tag_field="kind", tag="recording", kw_only=True):
    """The first line."""

    format: int = FORMAT
    servekit: str  #: version of the server
    time_s: float  #: when the recording began, in seconds since 1970
    share: float  #: of the requests, 0 to 1
    redacted: list[str] = []  #: header fields that are left out


class RecordedMessage(Struct, omit_defaults=True):
    """Headers and body of a request or of a response."""

    headers: dict[str, str] = {}  #: names in lower case
    text: str | None = None  #: the body, if it is UTF-8
    base64: bytes | None = None  #: the body, if it is not

    @property
    def body(self) -> bytes:
        """The bytes of the body."""
        return self.base64 if self.base64 is not None else (self.text or "").encode()

    @property
    def media_type(self) -> str:
        """The media type without its parameters; "" if there is none."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class RecordedStream(Struct, omit_defaults=True):
    """How the body of a streamed response came."""

    first_s: float | None = None  #: from the complete request to the first piece of the body
    incomplete: str = ""  #: why the recorded body is not the whole one: the client left, or ...


class RecordedCall(Struct, tag_field="kind", tag="call", kw_only=True):
    """One request and its response."""

    time_s: float  #: when the request was complete, in seconds since 1970
    request_id: str
    method: str
    target: str  #: path and query
    model: str = ""  #: the one that answered
    is_native: bool = True  #: ``/MODEL/...``; otherwise it came by the protocol of a plugin
    version: str  #: of the model that answered
    request: RecordedMessage
    status: int
    response: RecordedMessage
    is_stream: bool = False  #: the outputs came one by one
    stream: RecordedStream | None = None  #: ``None``: not a stream, or it was recorded without body
    duration_s: float  #: from the complete request to the end of the response, in the server

    @property
    def has_whole_body(self) -> bool:
        """Whether the body of the response was recorded to its end."""
        return not self.is_stream or (self.stream is not None and not self.stream.incomplete)


_decode_head = msgspec.json.Decoder(RecordingHead).decode
_decode_call = msgspec.json.Decoder(RecordedCall).decode


def message_of(headers: dict[str, str], body: bytes) -> RecordedMessage:
    """Return a message with *body* as text, where it is UTF-8."""
    try:
        return RecordedMessage(headers, text=body.decode())
    except UnicodeDecodeError:
        return RecordedMessage(headers, base64=body)


def line_of(entry: RecordingHead | RecordedCall) -> bytes:
    """Return the line of *entry*, with its end."""
    return _encode(entry) + b"\n"


def read_calls(path: str | Path) -> Iterator[RecordedCall]:
    """Yield the calls of the recording at *path*, in the order in which they were answered.

    :raises NotARecording: a line cannot be read.
    :raises OSError: the file cannot be read.
    """
    with Path(path).open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                if number == 1:
                    _check(_decode_head(line), path)
                else:
                    yield _decode_call(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise NotARecording(f"{path}, line {number}: {error}") from error
        if not file.tell():
            raise NotARecording(f"{path} is empty")


def _check(head: RecordingHead, path: str | Path) -> None:
    if head.format != FORMAT:
        text = f"{path}: has the format {head.format}, and this version reads {FORMAT}"
        raise NotARecording(text)
