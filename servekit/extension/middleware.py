# SPDX-License-Identifier: Apache-2.0
"""Middleware: code that sees every request before it is routed, and every response after it.

    def middleware(exchange, request, proceed):
        exchange.add_filter(change_the_response)
        proceed(exchange, request)

It runs in the event loop of a front-end and must not block: what takes more than a few hundred
microseconds belongs in a thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest

__all__ = ["Middleware", "Proceed"]

#: passes a request on to the next middleware, in the end to its route
Proceed = Callable[["Exchange", "HttpRequest"], None]
#: either calls ``proceed`` once, now or later, or responds on the exchange itself
Middleware = Callable[["Exchange", "HttpRequest", Proceed], None]
