# SPDX-License-Identifier: Apache-2.0
"""Begins the traces of sampled requests; the server has it if a plugin asks for a share of them."""

from __future__ import annotations

from random import random
from typing import TYPE_CHECKING

from servekit.frontend.tracing.trace import TRACE

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest
    from servekit.extension.middleware import Proceed
    from servekit.frontend.tracing.sampler import TraceSampler
    from servekit.frontend.tracing.traces import Traces

__all__ = ["sampling"]


def sampling(traces: Traces, sampler: TraceSampler) -> Callable[[Proceed], Proceed]:
    """Return what makes the outermost step of all requests of the step after it.

    What the others do is in the trace. Most requests get no further than the two conditions.
    """
    share, choose, join = sampler.share, sampler.choose, traces.join

    def around(proceed: Proceed) -> Proceed:
        def handle(exchange: Exchange, request: HttpRequest) -> None:
            is_drawn = random() < share  # noqa: S311 - a sample, no secret
            if is_drawn or TRACE in request.headers:
                chosen = choose(request, is_drawn=is_drawn)
                if chosen is not None:
                    join(exchange, request, chosen)
            proceed(exchange, request)

        return handle

    return around
