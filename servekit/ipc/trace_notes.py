# SPDX-License-Identifier: Apache-2.0
"""The notes of front-ends about traced requests: the observer makes events of them.

Only moments and names: what can be computed from them is up to the observer. Moments are seconds
of ``time.monotonic()``.
"""

from msgspec import Struct

from servekit.ipc.spans import BatchTrace, SpanValue

__all__ = ["BatchNote", "RequestNote", "SentVisit", "TraceNotes"]


class BatchNote(Struct, array_like=True, eq=False):
    """A batch, or a stream, that has left its worker, or will not be answered."""

    worker: str  #: unique on the server, with the front-end: ``digits/0.1-77``
    number: int  #: of the batch, for this worker and front-end
    stage: str  #: "" if the model has no others
    replica: int
    pid: int
    size: int  #: inputs of the batch, or rows of its inputs
    request_ids: list[str]  #: the first 64
    traceparents: list[str]  #: the members that have one
    sent_at: float
    ended_at: float
    #: seconds to decode, predict and encode; ``None``: only when it was sent and when it ended
    times: tuple[float, float, float] | None = None
    steps: dict[str, float] = {}  #: stage to seconds, if the worker has several
    recorded: BatchTrace | None = None  #: what the worker recorded
    attributes: dict[str, SpanValue] = {}  #: of the span ``predict``


class RequestNote(Struct, array_like=True, eq=False, gc=False):
    """A traced request that is over; the fields are those of ``RequestTraced`` where not said."""

    request_id: str
    traceparent: str
    parent_span: str
    model: str
    version: str
    method: bytes
    target: bytes  #: with the query
    status: int
    is_sampled: bool  #: otherwise it is a slow one
    began: float
    handled_at: float  #: when it had arrived whole
    answered_at: float  #: 0.0: it has no response
    ended_at: float
    content_type: bytes
    body: bytes | None = None


#: the way of a request, or of a part of it, through one queue and one batch: when it was queued,
#: when it left, and the place of the batch in the message; -1: it left without an answer
SentVisit = tuple[float, float, int]


class TraceNotes(Struct, tag_field="event", tag="trace_notes"):
    """Front-end to observer: some requests, and the batches that they were in."""

    offset_s: float  #: added to a moment, it makes seconds since 1970
    requests: list[RequestNote]
    visits: list[list[SentVisit]]  #: a list for each request
    batches: list[BatchNote]
