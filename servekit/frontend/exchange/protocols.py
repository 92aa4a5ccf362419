# SPDX-License-Identifier: Apache-2.0
"""The interfaces between the rooms of the front-end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from servekit.errors import ServekitError
from servekit.service.identity import Identity

if TYPE_CHECKING:
    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest
    from servekit.extension.middleware import Middleware
    from servekit.frontend.memory.body_arena import BodyArena
    from servekit.frontend.metrics.counters import ModelMetrics
    from servekit.ipc.batches import ProtocolCall
    from servekit.ipc.table import ModelRow

__all__ = ["Find", "Guard", "PredictionRoute", "ReadsBody", "Timed"]

#: from method, target, headers and whether there is a body to why the request is refused, or to
#: the client that makes it, if either is known
Guard = Callable[[bytes, bytes, dict[bytes, bytes], bool], ServekitError | Identity | None]

#: from method, target and headers of a request other than a prediction to whether anybody may read
#: its body
ReadsBody = Callable[[bytes, bytes, dict[bytes, bytes]], bool]


class Find(Protocol):
    """Finds the route of a prediction."""

    def __call__(
        self, method: bytes, target: bytes, headers: dict[bytes, bytes], /
    ) -> PredictionRoute | None:
        """Return what predicts; ``None`` for any other request."""


class Timed(Protocol):
    """A connection, or a stream of one: it has timeouts, and counts as open until it is closed."""

    expires: float  #: ``monotonic``: when ``expire`` is called

    @property
    def is_closed(self) -> bool:
        """Whether it has been closed."""

    def expire(self) -> None:
        """Handle a client that let a timeout pass."""

    def close_if_idle(self, now: float) -> None:
        """Close if no request is in progress: the front-end shuts down or is short of memory."""


class PredictionRoute(Protocol):
    """The target of predictions: the batcher of a model, or a pipeline."""

    @property
    def middleware(self) -> Middleware | None:
        """Middleware of this route alone: the cache of a model that asks for one."""

    @property
    def call(self) -> ProtocolCall | None:
        """The call of a plugin's protocol that leads here, or ``None``."""

    @property
    def is_provisional(self) -> bool:
        """Whether the body may name another model."""

    @property
    def row(self) -> ModelRow:
        """The model, or the stage, that answers."""

    @property
    def version(self) -> bytes:
        """The version of the model, as ``X-Model-Version`` has it."""

    @property
    def bodies(self) -> BodyArena:
        """Where large request bodies are received."""

    @property
    def metrics(self) -> ModelMetrics:
        """Counters of the model."""

    @property
    def asked(self) -> Sequence[str]:
        """Headers and query parameters that its services want to see."""

    @property
    def is_changing(self) -> bool:
        """Whether replicas of an older version still answer."""

    @property
    def has_spare_room(self) -> bool:
        """Whether its queues are less than half full."""

    def begin(
        self, exchange: Exchange, request: HttpRequest, call: ProtocolCall | None = None
    ) -> None:
        """Start the prediction for *request*, or respond at once.

        :param call: the protocol of a plugin that the request comes by, if it comes by one.
        """
