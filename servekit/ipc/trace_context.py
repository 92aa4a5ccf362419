# SPDX-License-Identifier: Apache-2.0
"""W3C Trace Context: the ``traceparent`` of a request (https://www.w3.org/TR/trace-context/)."""

import re
from random import getrandbits
from typing import NamedTuple, Self

__all__ = ["TRACEPARENT", "TraceContext", "new_traceparent", "trace_id_of"]

TRACEPARENT = "traceparent"
#: later versions may have more members after the flags
FORM = re.compile(
    r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?"
)
SAMPLED = 1
NO_TRACE, NO_SPAN = "0" * 32, "0" * 16


class TraceContext(NamedTuple):
    """A span of a trace."""

    trace_id: str  #: 32 hexadecimal digits
    span_id: str  #: 16 hexadecimal digits
    flags: int

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return what *text* says, or ``None`` if it is not valid and has to be ignored."""
        found = FORM.fullmatch(text)
        if found is None:
            return None
        version, trace_id, span_id, flags = found.groups()
        if version == "00" and len(text) > len("00--01-") + 48:
            return None
        return cls(trace_id, span_id, int(flags, 16))

    @property
    def is_sampled(self) -> bool:
        """Whether the trace is recorded."""
        return bool(self.flags & SAMPLED)

    def child(self) -> Self:
        """Return a new span of the same trace."""
        return self._replace(span_id=new_span_id())

    def with_sampled(self, is_sampled: bool) -> Self:
        """Return the same span, with that flag set or cleared."""
        return self._replace(flags=self.flags & ~SAMPLED | is_sampled)

    def __str__(self) -> str:
        """Return the value of the header."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags:02x}"


def new_traceparent() -> str:
    """Return the first span of a new trace, which is sampled."""
    ids = f"{getrandbits(192):048x}"
    trace_id, span_id = ids[:32], ids[32:]
    if trace_id == NO_TRACE or span_id == NO_SPAN:
        return new_traceparent()
    return f"00-{trace_id}-{span_id}-01"


def new_span_id() -> str:
    return f"{getrandbits(64) or 1:016x}"


def trace_id_of(text: str) -> str:
    """Return the id of the trace that the ``traceparent`` *text* names; "" if it is not valid."""
    found = TraceContext.parse(text)
    return found.trace_id if found is not None else ""
