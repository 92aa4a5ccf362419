# SPDX-License-Identifier: Apache-2.0
"""W3C Trace Context: the ``traceparent`` of a request (https://www.w3.org/TR/trace-context/)."""

import re
from random import getrandbits
from typing import NamedTuple, Self

__all__ = ["TRACEPARENT", "TraceContext", "trace_id_of"]

TRACEPARENT = "traceparent"
#: later versions may have more members after the flags
FORM = re.compile(
    r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?"
)
SAMPLED = 1


class TraceContext(NamedTuple):
    """A span of a trace."""

    trace_id: str  #: 32 hexadecimal digits
    span_id: str  #: 16 hexadecimal digits
    flags: int

    @classmethod
    def new(cls, *, is_sampled: bool) -> Self:
        """Return the first span of a new trace."""
        return cls(f"{getrandbits(128) or 1:032x}", new_span_id(), int(is_sampled))

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return what *text* says, or ``None`` if it is not valid and has to be ignored."""
        found = FORM.fullmatch(text)
        if found is None or (found[1] == "00" and len(text) > len("00--01-") + 48):
            return None
        return cls(found[2], found[3], int(found[4], 16))

    @property
    def is_sampled(self) -> bool:
        """Whether the trace is recorded."""
        return bool(self.flags & SAMPLED)

    def child(self) -> Self:
        """Return a new span of the same trace."""
        return self._replace(span_id=new_span_id())

    def __str__(self) -> str:
        """Return the value of the header."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags:02x}"


def new_span_id() -> str:
    return f"{getrandbits(64) or 1:016x}"


def trace_id_of(text: str) -> str:
    """Return the id of the trace that the ``traceparent`` *text* names; "" if it is not valid."""
    found = TraceContext.parse(text)
    return found.trace_id if found is not None else ""
