# SPDX-License-Identifier: Apache-2.0
"""The formats of a stream of outputs: server-sent events and JSON lines.

The worker writes the outputs, the front-end the end of the stream.
"""

from functools import lru_cache
from typing import Final, NamedTuple

from servekit.ipc.response_style import ResponseStyle

__all__ = ["EVENT_STREAM", "STREAM_FORMATS", "StreamFormat", "styled"]

EVENT_STREAM: Final = "text/event-stream"


class StreamFormat(NamedTuple):
    """The pieces of one media type; ``%b`` stands for JSON without line ends."""

    media_type: str
    output: bytes
    error: bytes  #: problem details, the last piece
    end: bytes  #: the last piece of a complete stream
    keep_alive: bytes = b""  #: a piece without content; "" if the format has none
    is_raw: bool = False  #: an output that is a string is written by ``text_piece``

    def text_piece(self, text: bytes) -> bytes:
        """Return the event whose data is *text*: each of its lines is a line of data."""
        lines = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return b"data: %b\n\n" % lines.replace(b"\n", b"\ndata: ")


#: by media type, the best first
STREAM_FORMATS: Final = {
    EVENT_STREAM: StreamFormat(
        EVENT_STREAM,
        output=b"data: %b\n\n",
        error=b"event: error\ndata: %b\n\n",
        end=b"event: end\ndata: {}\n\n",
        keep_alive=b": \n\n",
    )
} | {
    media_type: StreamFormat(
        media_type, output=b'{"output":%b}\n', error=b'{"error":%b}\n', end=b""
    )
    for media_type in ("application/x-ndjson", "application/jsonl")
}


@lru_cache(maxsize=256)
def styled(media_type: str, style: ResponseStyle | None) -> StreamFormat:
    """Return the format of *media_type*, one of ``STREAM_FORMATS``, on a route with *style*."""
    found = STREAM_FORMATS[media_type]
    if style is None:
        return found
    if media_type != EVENT_STREAM:
        return found._replace(output=b"%b\n") if style.is_bare else found
    found = found._replace(is_raw=style.stream.raw)
    if style.stream.end is None:
        return found
    end = style.stream.end.encode()
    return found._replace(end=found.text_piece(end) if end else b"")
