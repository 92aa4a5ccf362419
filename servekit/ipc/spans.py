# SPDX-License-Identifier: Apache-2.0
"""The spans that a worker records of a traced request, on their way to its front-end."""

from msgspec import Struct

__all__ = ["BatchTrace", "RecordedSpan", "SpanValue"]

SpanValue = str | int | float | bool


class RecordedSpan(Struct, array_like=True, frozen=True):
    """A part of the work of a service: ``servekit.span``, or one of a library that it uses."""

    id: str  #: 16 hexadecimal digits
    parent: str  #: the id of another one, or that of the ``BatchTrace``
    name: str
    start_s: float  #: ``monotonic``
    duration_s: float
    attributes: dict[str, SpanValue] = {}
    stage: str = ""  #: "" is the stage that the worker was started for


class BatchTrace(Struct, array_like=True, frozen=True):
    """The spans of a batch with a traced member, or of one traced request."""

    #: 16 hexadecimal digits: of the span that stands for the whole of it. It belongs to the trace
    #: of the first traced member
    id: str
    start_s: float  #: ``monotonic``: when the worker began with it
    spans: list[RecordedSpan] = []  #: in the order in which they ended
    dropped: int = 0  #: how many more there were
