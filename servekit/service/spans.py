# SPDX-License-Identifier: Apache-2.0
"""Spans that services add to the traces of requests. Runs in: worker.

A span is recorded while the worker processes a batch with a traced member. At other times
``span`` returns an object that does nothing.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Self

from msgspec.structs import replace

from servekit.ipc.spans import BatchTrace, RecordedSpan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from servekit.ipc.spans import SpanValue
    from servekit.ipc.trace_context import TraceContext

    #: makes a span current for a tracing library, and returns a function that ends that, if any
    EnterSpan = Callable[["ServiceSpan"], Callable[[], None] | None]

__all__ = [
    "UNTRACED",
    "ServiceSpan",
    "SpanRecorder",
    "UntracedSpan",
    "active_span",
    "begin_stage",
    "recording",
    "span",
]

MAX_SPANS: Final = 64  #: in one batch; later ones are counted
MAX_ATTRIBUTES: Final = 16  #: in one span; later ones are left out
MAX_TEXT: Final = 256  #: characters of a value
MAX_NAME: Final = 100  #: characters of the name of a span or an attribute
INT64: Final = range(-(1 << 63), 1 << 63)

_active: ContextVar[ServiceSpan | None] = ContextVar("servekit_span", default=None)


def span(name: str, **attributes: SpanValue) -> ServiceSpan | UntracedSpan:
    """Return a context manager that records how long its block takes, if the request is traced.

    A traced request is one that was sampled: by its client, or by this server. The span belongs to
    the whole batch. Without a traced request, this takes well below a microsecond.

    :param name: short, and the same for each request: ``tokenize``.
    :param attributes: facts about the work, which the traces show: ``tokens=12``.
    """
    parent = _active.get()
    return UNTRACED if parent is None else parent.begin(name, attributes)


def active_span() -> ServiceSpan | None:
    """Return the span that is active in this thread or task; ``None``: nothing is traced."""
    return _active.get()


def begin_stage(name: str) -> None:
    """Note that the service of stage *name* runs from now on, in a worker with several."""
    if (active := _active.get()) is not None:
        active.recorder.stage = name


def recording(recorders: Sequence[SpanRecorder]) -> AbstractContextManager[object]:
    """Return what has all of *recorders* record in a block: a step for several requests."""
    return recorders[0].active_for(recorders[1:]) if recorders else UNTRACED


class UntracedSpan:
    """The span of work that is not traced."""

    __slots__ = ()
    traceparent = ""  #: no other server needs to continue the trace

    def __enter__(self) -> Self:
        """Do nothing."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Do nothing."""

    def set(self, **attributes: SpanValue) -> None:
        """Do nothing."""


UNTRACED: Final = UntracedSpan()


class ServiceSpan:
    """A span of a traced batch, or the batch itself. It is entered once, in any thread or task."""

    __slots__ = ("_attributes", "_leave", "_name", "_parent", "_start_s", "id", "recorder")

    def __init__(
        self,
        recorder: SpanRecorder,
        parent: ServiceSpan | None,
        name: str,
        attributes: Mapping[str, SpanValue],
    ) -> None:
        """Begin when it is entered. *parent* is ``None`` for the span of the batch."""
        self.recorder, self._parent = recorder, parent
        self._name, self._attributes = name, dict(attributes)
        self.id = os.urandom(8).hex()  # the state of ``random`` belongs to the service

    @property
    def traceparent(self) -> str:
        """W3C Trace Context: a request with it, to another server, becomes a part of this span."""
        return str(self.recorder.context._replace(span_id=self.id))

    def begin(self, name: str, attributes: Mapping[str, SpanValue]) -> ServiceSpan:
        """Return a span inside this one."""
        return ServiceSpan(self.recorder, self, name, attributes)

    def set(self, **attributes: SpanValue) -> None:
        """Add *attributes*, for facts that are known only at the end."""
        self._attributes.update(attributes)

    def __enter__(self) -> Self:
        """Begin, and be active."""
        self._start_s = monotonic()
        _active.set(self)
        self._leave = self.recorder.enter(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        """End. An error is noted by its class, and raised."""
        end_s = monotonic()
        if self._leave is not None:
            self._leave()
        if _active.get() is self:  # not if it ends after its turn, or in another thread
            _active.set(self._parent)
        if kind is not None:
            self._attributes["error.type"] = kind.__qualname__
        parent = "" if self._parent is None else self._parent.id
        times = self._start_s, end_s - self._start_s
        self.recorder.record(self._name, *times, self._attributes, self.id, parent)


class SpanRecorder:
    """Keeps the spans of one batch, or of one traced request; any thread may record.

    A thread that the service has started takes part with the context of the caller:
    ``contextvars.copy_context().run(function)``.
    """

    def __init__(self, context: TraceContext, enter: EnterSpan) -> None:
        """Record for the trace of *context*, that of the first traced member.

        :param enter: called when a span begins; what it returns, if anything, is called at the end.
        """
        self.context = context
        self.stage = ""
        self.enter = enter
        self._start_s = 0.0
        self._spans: list[RecordedSpan] = []
        self._dropped = 0
        self._is_over = False
        self.root = self._active = ServiceSpan(self, None, "", {})

    @contextmanager
    def active(self) -> Iterator[None]:
        """Record in this block. A stream has one for each of its turns."""
        before = _active.get()
        _active.set(self._active)
        leave = self.enter(self._active)  # the first time, a plugin may import a library
        self._start_s = self._start_s or monotonic()
        try:
            yield
        finally:
            if leave is not None:
                leave()
            self._active = _active.get() or self.root
            _active.set(before)

    @contextmanager
    def active_for(self, others: Sequence[SpanRecorder]) -> Iterator[None]:
        """Record in this block, and have *others* keep the same."""
        known = len(self._spans)
        with self.active():
            yield
        for other in others:
            for each in self._spans[known:]:
                parent = other.root.id if each.parent == self.root.id else each.parent
                other.keep(replace(each, parent=parent))

    def record(
        self,
        name: str,
        start_s: float,
        duration_s: float,
        attributes: Mapping[str, Any],
        own_id: str,
        parent: str,
    ) -> None:
        """Keep a span that has ended, unless there are too many, or the request has its answer.

        :param start_s: ``monotonic``.
        """
        names = [*attributes][:MAX_ATTRIBUTES]
        kept = {_text(key, MAX_NAME): _value(attributes[key]) for key in names}
        text = _text(name, MAX_NAME)
        self.keep(RecordedSpan(own_id, parent, text, start_s, duration_s, kept, self.stage))

    def keep(self, recorded: RecordedSpan) -> None:
        """Do the same with a span that has been checked."""
        if self._is_over:
            return
        if len(self._spans) < MAX_SPANS:
            self._spans.append(recorded)
        else:
            self._dropped += 1

    def finish(self) -> BatchTrace:
        """Return what was recorded, and record no more."""
        self._is_over = True
        return BatchTrace(self.root.id, self._start_s, self._spans, self._dropped)


def _value(value: Any) -> SpanValue:
    """Return *value* as a type that can be sent; authors may pass numbers of NumPy, or anything."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and value in INT64:
        return int(value)
    return float(value) if isinstance(value, float) else _text(value, MAX_TEXT)


def _text(value: Any, most: int) -> str:
    """Return *value* as text of at most *most* characters, without lone surrogates."""
    try:
        text = str.__str__(str(value))[:most]
    except Exception:  # noqa: BLE001 - an author's object
        text = type(value).__name__
    return text.encode("utf-8", "replace").decode()
