# SPDX-License-Identifier: Apache-2.0
"""Exchanges whose answers are lines of the access log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servekit.frontend.http2.exchange import Exchange
from servekit.frontend.middleware.access_log import Logged

if TYPE_CHECKING:
    from servekit.frontend.http2.streams import Streams

__all__ = ["LoggedExchange"]


class LoggedExchange(Logged, Exchange):  # type: ignore[misc] # one is a connection to mypy
    """An exchange, and a line for its answer."""

    def __init__(self, streams: Streams, stream_id: int) -> None:
        """Begin as ``Exchange`` does."""
        log = streams.front_end.access_log
        assert log is not None
        self._log, self._asked = log, None
        Exchange.__init__(self, streams, stream_id)
