# SPDX-License-Identifier: Apache-2.0
"""Begins the traces of sampled requests; the server has it if a plugin asks for a share of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest
    from servekit.extension.middleware import Proceed
    from servekit.frontend.tracing.traces import Traces

__all__ = ["Sampling"]


class Sampling:
    """The outermost middleware: what the others do is in the trace."""

    def __init__(self, traces: Traces) -> None:
        """Have *traces* choose."""
        self._sample = traces.sample

    def __call__(self, exchange: Exchange, request: HttpRequest, proceed: Proceed) -> None:
        """Trace *request*, or not."""
        self._sample(exchange, request)
        proceed(exchange, request)
