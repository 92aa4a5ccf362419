# SPDX-License-Identifier: Apache-2.0
"""What the Flask app may know of the front-end it runs in."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from prometheus_client import Metric

from servekit.ipc.counters import Counters, Share
from servekit.ipc.table import Table
from servekit.settings import Settings

__all__ = ["RoutingView", "ServerView"]


class RoutingView(Protocol):
    """The models that it serves."""

    @property
    def table(self) -> Table:
        """The current routing table; another object after every change."""
        ...

    def live_replicas(self, model: str) -> int:
        """Return how many replicas have an open channel and answered recently.

        :param model: the label of a row: of a model, or of one of its stages.
        """
        ...

    def unresolved(self, model: str) -> list[str]:
        """Return why routes of *model* do not answer, one line for each that does not."""
        ...

    def waiting(self) -> Mapping[str, int]:
        """Return how many tasks wait for each model, in all front-ends together."""
        ...

    def collect(self) -> Iterable[Metric]:
        """Return the series of the hot path, those of all front-ends together."""
        ...


class ServerView(Protocol):
    """The front-end as the Flask app sees it; read anew for every request."""

    @property
    def settings(self) -> Settings:
        """What the operator decided."""
        ...

    @property
    def routing(self) -> RoutingView:
        """The models that it serves."""
        ...

    @property
    def collectors(self) -> Sequence[Callable[[], Iterable[Metric]]]:
        """What plugins add to ``/metrics``."""
        ...

    @property
    def counters(self) -> Counters | None:
        """What all front-ends count; ``None``: this one is alone."""
        ...

    @property
    def share(self) -> Share | None:
        """Where this one counts."""
        ...

    @property
    def needs_token(self) -> bool:
        """Whether predictions need a bearer token."""
        ...
