# SPDX-License-Identifier: Apache-2.0
"""The part of the front-end that the Flask app may use."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from prometheus_client import Metric

from servekit.errors import ServekitError
from servekit.ipc.counter_share import Share
from servekit.ipc.counters import Counters
from servekit.ipc.table import ModelRow, Table
from servekit.settings import Settings

__all__ = ["RoutingView", "ServerView"]


class RoutingView(Protocol):
    """The models that it serves."""

    @property
    def table(self) -> Table:
        """The current routing table; another object after every change."""
        ...

    def live_replicas(self, model: str, version: str = "") -> int:
        """Return how many replicas have an open channel and answered recently.

        :param model: the label of a row: of a model, or of one of its stages.
        :param version: "" is the default version.
        """
        ...

    def unresolved(self, model: str) -> list[str]:
        """Return why routes of *model* do not answer, one line for each that does not."""
        ...


class ServerView(Protocol):
    """The front-end, for the Flask app; read again for every request."""

    @property
    def settings(self) -> Settings:
        """The settings of the server."""
        ...

    @property
    def routing(self) -> RoutingView:
        """The models that it serves."""
        ...

    @property
    def collectors(self) -> Sequence[Callable[[], Iterable[Metric]]]:
        """The collectors for ``/metrics``: of the models of all front-ends, and of plugins."""
        ...

    @property
    def counters(self) -> Counters:
        """The counters of all front-ends."""
        ...

    @property
    def share(self) -> Share:
        """The counters of this front-end."""
        ...

    @property
    def needs_token(self) -> bool:
        """Whether predictions need a bearer token."""
        ...

    def wake(self, model: ModelRow) -> None:
        """Ask for the default version of *model* to be loaded, if it is asleep."""
        ...

    def judge_manager(self, authorization: bytes | None) -> ServekitError | None:
        """Return why a request with *authorization* may not manage the server; ``None``: it may."""
        ...
