# SPDX-License-Identifier: Apache-2.0
"""Encoded spans wait here, and a thread exports many of them together. Runs in: observer."""

from __future__ import annotations

import logging
import os
from collections import deque
from threading import Condition, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from opentelemetry.sdk.trace.export import SpanExportResult

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

    from servekit_otel.conversion import EncodedSpans
    from servekit_otel.otlp import RequestFrame

__all__ = ["EncodedRequest", "QueueLimits", "SpanQueue"]

MAX_BYTES: Final = 1 << 20  #: spans of one export; collectors accept 4 MiB over gRPC
QUIET_S: Final = 60.0  #: between two log lines about lost spans
END_S: Final = 30.0

log = logging.getLogger("servekit.otel")


class QueueLimits(NamedTuple):
    """How many spans wait, and how many are exported together."""

    delay_s: float = 5.0  #: after which fewer than ``together`` are exported, too
    waiting: int = 16_384
    together: int = 4096

    @classmethod
    def of_variables(cls) -> QueueLimits:
        """Return the limits that the variables of OpenTelemetry set, or the defaults."""
        usual = cls()
        delay_s = _variable("SCHEDULE_DELAY", usual.delay_s * 1000) / 1000
        waiting = int(_variable("MAX_QUEUE_SIZE", usual.waiting))
        together = int(_variable("MAX_EXPORT_BATCH_SIZE", usual.together))
        return cls(delay_s, waiting, min(together, waiting))


def _variable(name: str, default: float) -> float:
    return float(os.environ.get(f"OTEL_BSP_{name}") or default)


class EncodedRequest:
    """Goes through an exporter in place of a list of spans."""

    def __init__(self, content: bytes, count: int) -> None:
        """*content* is an ``ExportTraceServiceRequest`` with *count* spans."""
        self._content, self._count = content, count

    def __len__(self) -> int:
        """Return the number of spans."""
        return self._count

    def SerializePartialToString(self) -> bytes:  # noqa: N802 - what the exporter for HTTP calls
        """Return the bytes."""
        return self._content

    def parsed(self) -> Any:
        """Return the message that the exporter for gRPC sends."""
        from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

        return trace_service_pb2.ExportTraceServiceRequest.FromString(self._content)


class SpanQueue:
    """Bounded; of more spans the oldest are dropped. It counts those that are lost."""

    def __init__(self, exporter: SpanExporter, frame: RequestFrame, limits: QueueLimits) -> None:
        """Start the thread."""
        self._exporter, self._frame, self._limits = exporter, frame, limits
        self._spans: deque[EncodedSpans] = deque()
        self._changed = Condition()
        self._is_ending = False
        self._waiting = 0  #: spans
        self.dropped = self.failed = 0  #: spans that waited too long, or were not taken
        self._reported = 0
        self._quiet_until = 0.0
        self._thread = Thread(target=self._run, name="otel export", daemon=True)
        self._thread.start()

    def add(self, spans: EncodedSpans) -> None:
        """Queue *spans*. Never waits for the collector."""
        with self._changed:
            self._spans.append(spans)
            self._waiting += spans.spans
            while self._waiting > self._limits.waiting:
                count = self._spans.popleft().spans
                self._waiting -= count
                self.dropped += count
            if self._waiting >= self._limits.together:
                self._changed.notify()

    def end(self) -> None:
        """Export all that wait. Blocks as long as the collector does, at most half a minute."""
        with self._changed:
            self._is_ending = True
            self._changed.notify()
        self._thread.join(END_S)
        self._exporter.shutdown()
        self._report()

    def _run(self) -> None:
        while (taken := self._take()) is not None:
            if taken:
                self._export(taken)
            if monotonic() >= self._quiet_until:
                self._report()

    def _take(self) -> list[EncodedSpans] | None:
        """Wait until there are enough spans, or for the delay; ``None``: no more will come."""
        together = self._limits.together
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_ending or self._waiting >= together, self._limits.delay_s
            )
            if self._is_ending and not self._spans:
                return None
            return self._first()

    def _first(self) -> list[EncodedSpans]:
        """Return the oldest spans that make one export, of one request at least."""
        taken: list[EncodedSpans] = []
        count = size = 0
        while self._spans:
            content, more = self._spans[0]
            count, size = count + more, size + len(content)
            if taken and (count > self._limits.together or size > MAX_BYTES):
                break
            taken.append(self._spans.popleft())
            self._waiting -= more
        return taken

    def _export(self, taken: list[EncodedSpans]) -> None:
        count = sum(each.spans for each in taken)
        content = self._frame.around(b"".join(each.content for each in taken))
        try:
            result = self._exporter.export(EncodedRequest(content, count))  # type: ignore[arg-type]
        except Exception:
            log.exception("the exporter failed")
            result = SpanExportResult.FAILURE
        if result is not SpanExportResult.SUCCESS:
            self.failed += count

    def _report(self) -> None:
        """Log how many spans were lost, if it is more than the last time."""
        lost = self.dropped + self.failed
        if lost == self._reported:
            return
        self._quiet_until, self._reported = monotonic() + QUIET_S, lost
        log.warning(
            "spans lost: %d that the collector did not take, %d that waited too long",
            self.failed,
            self.dropped,
        )
