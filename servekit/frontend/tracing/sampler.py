# SPDX-License-Identifier: Apache-2.0
"""Chooses the requests whose traces plugins get in any case."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from servekit.frontend.tracing.trace import TRACE, context_of
from servekit.ipc.trace_context import new_traceparent

if TYPE_CHECKING:
    from servekit.extension.http import HttpRequest
    from servekit.extension.sampling import TraceSampling
    from servekit.frontend.metrics.trace_counts import TraceCounts

__all__ = ["TraceSampler"]

HELD_S = 0.5  #: without new traces, after the observer has not kept up


class TraceSampler:
    """There is one in each front-end while a plugin implements ``trace_sampler``."""

    def __init__(self, sampling: TraceSampling, counts: TraceCounts) -> None:
        """Choose as *sampling* says, and count the requests that it leaves out."""
        self.share = sampling.share  #: the part of the requests that chance chooses
        self._follows_clients = sampling.follows_clients
        self._per_second = inf if sampling.per_second is None else sampling.per_second
        self._counts = counts
        self._most = max(1.0, self._per_second)  #: traces that may begin at once
        self._left = self._most
        self._renewed_at = self._held_until = 0.0  #: ``monotonic``

    def choose(self, request: HttpRequest, *, is_drawn: bool) -> tuple[str, str] | None:
        """Return the span that *request* is, as a ``traceparent``, and the id of its parent.

        ``None``: it is not sampled. The ``traceparent`` becomes a header of the request.

        :param is_drawn: chance has chosen the request.
        """
        headers = request.headers
        if TRACE not in headers or (given := context_of(request)) is None:
            if not (is_drawn and self._may_begin()):
                return None
            traceparent, parent_span = new_traceparent(), ""
        elif given.is_sampled if self._follows_clients else is_drawn and self._may_begin():
            traceparent, parent_span = str(given.child().with_sampled(True)), given.span_id
        else:
            if given.is_sampled:  # workers look at the flag
                headers[TRACE] = str(given.with_sampled(False)).encode()
            return None
        headers[TRACE] = traceparent.encode()
        return traceparent, parent_span

    def _may_begin(self) -> bool:
        """Whether one more trace may begin; if not, count it."""
        if self._held_until:
            self._counts.count("dropped")
        elif self._left < 1:
            self._counts.count("limited")
        else:
            self._left -= 1
            return True
        return False

    def hold(self, now: float) -> None:
        """Begin no traces for a while: the observer does not keep up."""
        self._held_until = now + HELD_S

    def renew(self, now: float) -> None:
        """Allow as many traces as belong to the time since the last call."""
        if self._left < self._most:
            more = self._per_second * (now - self._renewed_at)
            self._left = min(self._most, self._left + more)
        self._renewed_at = now
        if now >= self._held_until:
            self._held_until = 0.0
