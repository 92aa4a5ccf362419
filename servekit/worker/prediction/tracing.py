# SPDX-License-Identifier: Apache-2.0
"""Decides whether a batch is traced, and lets plugins take part in its spans."""

from __future__ import annotations

from contextlib import ExitStack
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from servekit.ipc.trace_context import TRACEPARENT, TraceContext
from servekit.plugins import implemented
from servekit.service.spans import SpanRecorder
from servekit.worker.process.log import report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from servekit.plugins import PluginManager
    from servekit.service.spans import ServiceSpan
    from servekit.worker.prediction.current_batch import OpenItem

__all__ = ["Tracing"]

HEADERS_OF = attrgetter("headers")


class Tracing:
    """Makes a recorder for each batch with a traced member. One for each worker."""

    def __init__(self, manager: PluginManager | None = None) -> None:
        """Call ``enter_span`` of the plugins of *manager*."""
        has_hook = manager is not None and implemented(manager.hook, ["enter_span"])
        self._manager = manager if has_hook else None

    def recorder_of(self, items: Iterable[OpenItem]) -> SpanRecorder | None:
        """Return what records the spans of *items*; ``None`` if none of them is traced."""
        for headers in filter(None, map(HEADERS_OF, items)):
            context = TraceContext.parse(headers.get(TRACEPARENT, ""))
            if context is not None and context.is_sampled:
                return SpanRecorder(context, self._enter)
        return None

    def _enter(self, span: ServiceSpan) -> Callable[[], None] | None:
        if self._manager is None:
            return None
        try:
            contexts = self._manager.hook.enter_span(span=span)
        except Exception as error:  # noqa: BLE001 - a plugin may raise anything
            self._fail(error)
            return None
        return self._entered(contexts) if contexts else None

    def _entered(self, contexts: list[Any]) -> Callable[[], None]:
        """Enter *contexts*, and return what leaves them."""
        scope = ExitStack()
        try:
            for context in contexts:
                scope.enter_context(context)
        except Exception as error:  # noqa: BLE001 - a plugin may raise anything
            self._fail(error)

        def leave() -> None:
            try:
                scope.close()
            except Exception as error:  # noqa: BLE001 - a plugin may raise anything
                self._fail(error)

        return leave

    def _fail(self, error: Exception) -> None:
        """Log *error*, and do without the plugins from now on."""
        self._manager = None
        report("enter_span of a plugin failed, and is not called any more", error)
