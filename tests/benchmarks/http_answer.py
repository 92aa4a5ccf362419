# SPDX-License-Identifier: Apache-2.0
"""Just enough HTTP to know where an answer ends."""

import re
from typing import Final

LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)[ \t]*\r\n", re.IGNORECASE)
CHUNKED: Final = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked[ \t]*\r\n", re.IGNORECASE)
END: Final = b"\r\n\r\n"
LAST_CHUNK: Final = b"0\r\n\r\n"


def is_whole(answer: bytes) -> bool:
    """Return whether *answer* holds a whole answer; without a length it ends with its head."""
    head, end, body = answer.partition(END)
    if not end:
        return False
    if CHUNKED.search(head + END[:2]):
        return body.endswith(LAST_CHUNK)
    length = LENGTH.search(head + END[:2])
    return len(body) >= (int(length[1]) if length else 0)


def body_of(answer: bytes) -> bytes:
    """Return the body of a whole answer; that of a chunked one as it came."""
    return answer.partition(END)[2]
