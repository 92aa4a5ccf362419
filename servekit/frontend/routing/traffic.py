# SPDX-License-Identifier: Apache-2.0
"""Follows the rules for requests that name no version: weights, a sticky header, a mirror.

A model without rules keeps the routes of its default version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from servekit.frontend.routing.mirror import COPY, KEEP, MirrorRoute
from servekit.frontend.routing.split import Split, SplitRoute

if TYPE_CHECKING:
    from collections.abc import Mapping

    from servekit.frontend.exchange.event_loop import EventLoop
    from servekit.frontend.exchange.protocols import PredictionRoute
    from servekit.frontend.routing.version_routes import Routes, Version
    from servekit.ipc.table import ModelRow

__all__ = ["Traffic"]


class Traffic:
    """The rules of all models of a front-end."""

    def __init__(self, loop: EventLoop) -> None:
        """Begin copies by *loop*."""
        self._loop = loop
        self._splits: dict[tuple[str, str], Split] = {}  #: by model and purpose

    def routes(self, row: ModelRow, versions: Mapping[str, Version]) -> Routes:
        """Return what answers where requests name no version of the model *row*.

        Versions without a worker are left out.
        """
        serving = {name: each for name, each in versions.items() if each.row.is_ready}
        routes = self._weighted(row, versions[row.version].routes, serving)
        shadow = serving.get(row.traffic.mirror)
        if shadow is None or shadow.row is row:
            return routes
        percent = row.traffic.mirror_percent
        sample = self._split(row, "mirror", {COPY: percent, KEEP: 100 - percent}, "")
        return {
            path: MirrorRoute(route, copied, sample, self._loop)
            if (copied := shadow.routes.get(path)) is not None
            else route
            for path, route in routes.items()
        }

    def _weighted(self, row: ModelRow, default: Routes, serving: Mapping[str, Version]) -> Routes:
        """Return the routes of versions that have weights, at the paths of the *default* one."""
        rules = row.traffic
        weights = {name: n for name, n in rules.weights.items() if n > 0 and name in serving}
        if not weights:
            return default
        found = {path: _at(path, weights, serving) for path in default}
        if len(weights) > 1:
            split = self._split(row, "weights", weights, rules.sticky)
            return {path: SplitRoute(default[path], split, found[path]) for path in default}
        return {path: next(iter(found[path].values()), default[path]) for path in default}

    def _split(self, row: ModelRow, purpose: str, weights: Mapping[str, int], sticky: str) -> Split:
        """Return a split of a model; the same one as before if its rules have not changed."""
        split = self._splits.get((row.name, purpose))
        if split is None or split.described != (weights, sticky):
            split = self._splits[row.name, purpose] = Split(row.name, weights, sticky)
        return split


def _at(
    path: str, names: Mapping[str, int], versions: Mapping[str, Version]
) -> dict[str, PredictionRoute]:
    """Return the routes at *path* of the versions of *names* that have one."""
    found = {name: versions[name].routes.get(path) for name in names}
    return {name: route for name, route in found.items() if route is not None}
