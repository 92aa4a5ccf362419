# SPDX-License-Identifier: Apache-2.0
"""From the notes of front-ends to events."""

from collections.abc import Iterator, Sequence
from operator import attrgetter

from servekit.extension.events import RequestTraced, Span, TracedBatch
from servekit.ipc.trace_notes import BatchNote, RequestNote, SentVisit, TraceNotes

__all__ = ["events_of"]

START_OF = attrgetter("start_s")


def events_of(message: TraceNotes) -> list[RequestTraced]:
    """Return an event for each request of *message*."""
    shown = list(map(traced_batch, message.batches))
    pairs = zip(message.requests, message.visits, strict=True)
    return [_event(request, visits, message, shown) for request, visits in pairs]


def traced_batch(note: BatchNote) -> TracedBatch:
    """Return the batch as plugins get it."""
    recorded = note.recorded
    return TracedBatch(
        id=f"{note.worker}-{note.number}",
        stage=note.stage,
        replica=note.replica,
        pid=note.pid,
        size=note.size,
        request_ids=note.request_ids,
        traceparents=note.traceparents,
        span=recorded.id if recorded is not None else "",
        dropped=recorded.dropped if recorded is not None else 0,
    )


def _event(
    note: RequestNote, visits: Sequence[SentVisit], message: TraceNotes, shown: list[TracedBatch]
) -> RequestTraced:
    """Return the event of one request; *shown* are the batches of *message*."""
    places = list(dict.fromkeys(place for _, _, place in visits if place >= 0))
    batches = [message.batches[place] for place in places]
    own_visits = [
        (queued, left, places.index(at) if at >= 0 else -1) for queued, left, at in visits
    ]
    return RequestTraced(
        time_s=note.began + message.offset_s,
        request_id=note.request_id,
        traceparent=note.traceparent,
        parent_span=note.parent_span,
        model=note.model,
        version=note.version,
        method=note.method.decode("latin-1"),
        path=note.target.partition(b"?")[0].decode("latin-1"),
        status=note.status,
        reason="sampled" if note.is_sampled else "slow",
        duration_s=note.ended_at - note.began,
        spans=sorted(_spans(note, own_visits, batches), key=START_OF),
        batches=[shown[place] for place in places],
        content_type=note.content_type.decode("latin-1"),
        body=note.body,
    )


def _spans(
    note: RequestNote, visits: Sequence[SentVisit], batches: Sequence[BatchNote]
) -> Iterator[Span]:
    began = note.began
    if note.handled_at > began:
        yield _span("receive", began, note.handled_at, began)
    for queued_at, left_at, place in visits:
        if place < 0:
            yield _span("queue", queued_at, left_at, began)
            continue
        batch = batches[place]
        yield _span("queue", queued_at, batch.sent_at, began, batch.stage, place)
        yield from _spans_in_worker(batch, began, place)
    for place, batch in enumerate(batches):
        yield from _spans_of_service(batch, began, place)
    if note.answered_at:
        yield _span("send", note.answered_at, note.ended_at, began)


def _span(
    name: str, start: float, end: float, began: float, stage: str = "", batch: int = -1
) -> Span:
    """Return the span from *start* to *end* of a request that *began*, all ``monotonic``."""
    duration_s = max(0.0, end - start)
    return Span(name=name, stage=stage, start_s=start - began, duration_s=duration_s, batch=batch)


def _spans_in_worker(note: BatchNote, began: float, batch: int) -> Iterator[Span]:
    """Yield the spans of *note*, one after another.

    A worker says when it began only if a member is sampled. For other batches, both ways between
    the processes come first.
    """
    stage, at = note.stage, note.sent_at - began
    if note.times is None:
        yield Span(
            name="predict",
            stage=stage,
            start_s=at,
            duration_s=note.ended_at - note.sent_at,
            batch=batch,
            attributes=note.attributes,
        )
        return
    decode_s, predict_s, encode_s = note.times
    ipc_s = max(0.0, note.ended_at - note.sent_at - decode_s - predict_s - encode_s)
    steps = note.steps or {stage: predict_s}
    out_s = ipc_s
    if note.recorded is not None:
        out_s = min(ipc_s, max(0.0, note.recorded.start_s - note.sent_at))
    parts = [("ipc", stage, out_s), ("decode", stage, decode_s)]
    parts += [("predict", each, step_s) for each, step_s in steps.items()]
    parts.append(("encode", stage, encode_s))
    if ipc_s > out_s:
        parts.append(("ipc", stage, ipc_s - out_s))
    for name, of, duration_s in parts:
        yield Span(name=name, stage=of, start_s=at, duration_s=duration_s, batch=batch)
        at += duration_s


def _spans_of_service(note: BatchNote, began: float, batch: int) -> Iterator[Span]:
    """Yield the spans that a service gave."""
    for each in note.recorded.spans if note.recorded is not None else ():
        yield Span(
            name=each.name,
            stage=each.stage or note.stage,
            start_s=each.start_s - began,
            duration_s=each.duration_s,
            batch=batch,
            attributes=each.attributes,
            id=each.id,
            parent=each.parent,
        )
