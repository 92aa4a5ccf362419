# SPDX-License-Identifier: Apache-2.0
"""Why was this slow: the slowest requests of the last half hour, and where the time of one went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from flask import request
from msgspec import Struct

from servekit.errors import RouteNotFound

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.extension import RequestTraced, Server, Span, TracedBatch
    from servekit_console.collector import Reader

__all__ = ["SlowPages", "SlowRequest", "SpanRow", "shown"]

KINDS: Final = ("receive", "queue", "ipc", "decode", "predict", "encode", "send")
LISTED: Final = 100
#: a part that takes so much of the longest one explains it better
EXPLAINS: Final = 0.5


class SpanRow(Struct, kw_only=True):
    """One part of the time of a request; places are percentages of the whole."""

    name: str
    stage: str
    kind: str  #: one of ``KINDS``, or ``own``: the service gave it its name
    start_s: float
    duration_s: float
    left: float
    width: float
    batch: int
    attributes: dict[str, str | int | float | bool]

    @property
    def title(self) -> str:
        """The name, and the stage if the model has several."""
        return f"{self.name} of {self.stage}" if self.stage else self.name


class SlowRequest(Struct, kw_only=True):
    """One request."""

    request_id: str
    time_s: float
    model: str
    version: str
    method: str
    path: str
    status: int
    reason: str
    duration_s: float
    traceparent: str
    spans: list[SpanRow]
    batches: list[TracedBatch]
    main: SpanRow | None  #: the part that took longest
    content_type: str = ""
    has_body: bool = False  #: whether the server has kept it
    body: str | None = None

    @property
    def share(self) -> float:
        """How much of the time the longest part took."""
        return self.main.width / 100 if self.main else 0.0


class SlowPages:
    """Makes the pages."""

    def __init__(self, server: Server, reader: Reader, may_see_secrets: Callable[[], bool]) -> None:
        """Show what *reader* knows.

        :param may_see_secrets: whether bodies of requests are shown to this client.
        """
        self._server, self._reader = server, reader
        self._may_see_secrets = may_see_secrets

    def build_list(self) -> dict[str, Any]:
        """Return the slowest requests, of one model if the query names it."""
        model = request.args.get("model", "")
        found = [shown(trace, with_body=False) for trace in self._reader.traces(model, LISTED)]
        return {"model": model, "models": sorted(self._server.models), "requests": found}

    def build_one(self, request_id: str) -> SlowRequest:
        """Return one request.

        :raises RouteNotFound: it is not kept.
        """
        trace = self._reader.trace(request_id)
        if trace is None:
            raise RouteNotFound("this request is not among the traces that are kept")
        return shown(trace, with_body=self._may_see_secrets())


def shown(trace: RequestTraced, *, with_body: bool) -> SlowRequest:
    """Return *trace* as pages show it.

    :param with_body: whether the body is shown, if the server has kept it.
    """
    total_s = max(trace.duration_s, 1e-9)
    spans = [_row(span, total_s) for span in trace.spans]
    return SlowRequest(
        request_id=trace.request_id,
        time_s=trace.time_s,
        model=trace.model,
        version=trace.version,
        method=trace.method,
        path=trace.path,
        status=trace.status,
        reason=trace.reason,
        duration_s=trace.duration_s,
        traceparent=trace.traceparent,
        spans=spans,
        batches=trace.batches,
        main=_main(spans),
        content_type=trace.content_type,
        has_body=trace.body is not None,
        body=trace.body.decode(errors="replace") if with_body and trace.body is not None else None,
    )


def _row(span: Span, total_s: float) -> SpanRow:
    left = min(100.0, max(0.0, 100 * span.start_s / total_s))
    return SpanRow(
        name=span.name,
        stage=span.stage,
        kind=span.name if span.name in KINDS else "own",
        start_s=span.start_s,
        duration_s=span.duration_s,
        left=left,
        width=min(100.0 - left, 100 * span.duration_s / total_s),
        batch=span.batch,
        attributes=span.attributes,
    )


def _main(spans: list[SpanRow]) -> SpanRow | None:
    """Return the longest part, or what the service calls most of it."""
    longest = max(
        (each for each in spans if each.kind != "own"),
        key=lambda each: each.duration_s,
        default=None,
    )
    if longest is None:
        return None
    own = [
        each
        for each in spans
        if each.kind == "own"
        and (each.batch, each.stage) == (longest.batch, longest.stage)
        and each.duration_s >= EXPLAINS * longest.duration_s
    ]
    return max(own, key=lambda each: each.start_s) if own else longest
