# SPDX-License-Identifier: Apache-2.0
"""Shares of the requests of a model: chosen in turns, or by the value of a header."""

from __future__ import annotations

from bisect import bisect_right
from hashlib import blake2b
from itertools import accumulate
from typing import TYPE_CHECKING

from servekit.frontend.routing.indirect import IndirectRoute, move_body, start

if TYPE_CHECKING:
    from collections.abc import Mapping

    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest
    from servekit.frontend.exchange.protocols import PredictionRoute
    from servekit.ipc.batches import ProtocolCall

__all__ = ["Split", "SplitRoute"]

HASH_BYTES = 8


class Split:
    """Chooses versions in proportion to their weights, spread as evenly as possible.

    After any number of choices, each version has had its share of them, give or take one.
    """

    def __init__(self, model: str, weights: Mapping[str, int], sticky: str) -> None:
        """Choose for *model* among the versions of *weights*; none gets a share of 0.

        :param sticky: name of the header whose value decides, if a request has it; or "".
        """
        self.described = dict(weights), sticky
        self._sticky = sticky.lower().encode()
        self._key = model.encode()[: blake2b.MAX_KEY_SIZE]
        self._versions = sorted(weights)
        self._weights = [weights[version] for version in self._versions]
        self._ends = list(accumulate(self._weights))
        self._credits = [0] * len(self._weights)  #: shares that each version has yet to get

    def choose(self, headers: Mapping[bytes, bytes]) -> str:
        """Return the version that answers a request with *headers*, names in lower case."""
        value = headers.get(self._sticky) if self._sticky else None
        place = self._next() if value is None else self._place_of(value)
        return self._versions[place]

    def _next(self) -> int:
        owed = self._credits = [
            credit + weight for credit, weight in zip(self._credits, self._weights, strict=True)
        ]
        place = owed.index(max(owed))
        owed[place] -= self._ends[-1]
        return place

    def _place_of(self, value: bytes) -> int:
        """Return the same place for the same *value*, in every process."""
        digest = blake2b(value, digest_size=HASH_BYTES, key=self._key).digest()
        point = int.from_bytes(digest) * self._ends[-1] >> 8 * HASH_BYTES
        return bisect_right(self._ends, point)


class SplitRoute(IndirectRoute):
    """A path where several versions answer. Until one is chosen, it is that of the default one."""

    __slots__ = ("_routes", "_split")

    middleware = None  #: each version has its own
    call = None

    def __init__(
        self, default: PredictionRoute, split: Split, routes: Mapping[str, PredictionRoute]
    ) -> None:
        """Lead to one of *routes*, by version; to *default*, if that version has no such path."""
        super().__init__(default)
        self._split, self._routes = split, routes

    def begin(
        self, exchange: Exchange, request: HttpRequest, call: ProtocolCall | None = None
    ) -> None:
        """Choose a version, and start the prediction with it."""
        route = self._routes.get(self._split.choose(request.headers), self._route)
        move_body(request, route)
        exchange.model_version = route.version
        start(route, exchange, request, call)
