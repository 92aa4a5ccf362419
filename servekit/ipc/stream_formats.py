# SPDX-License-Identifier: Apache-2.0
"""The formats of a stream of outputs: server-sent events and JSON lines.

The worker writes the outputs, the front-end the end of the stream.
"""

from typing import Final, NamedTuple

__all__ = ["EVENT_STREAM", "STREAM_FORMATS", "StreamFormat"]

EVENT_STREAM: Final = "text/event-stream"


class StreamFormat(NamedTuple):
    """The pieces of one media type; ``%b`` stands for JSON without line ends."""

    media_type: str
    output: bytes
    error: bytes  #: problem details, the last piece
    end: bytes  #: the last piece of a complete stream
    keep_alive: bytes = b""  #: a piece without content; "" if the format has none


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
