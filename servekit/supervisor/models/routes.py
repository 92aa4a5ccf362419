# SPDX-License-Identifier: Apache-2.0
"""The paths of models besides ``/<model>/predict``, and the paths that two models claim."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from servekit.ipc.batches import PREDICT
from servekit.ipc.response_style import style_of
from servekit.ipc.table import Interface, ModelRow, RouteRow, StepRow

__all__ = [
    "clashes",
    "longest_way_s",
    "named_routes",
    "note_clashes",
    "routes_of_endpoints",
]

FIXED: Final = ("predict", "ping")  #: each model has these paths below its name


def named_routes(name: str, manifest: Mapping[str, Any]) -> list[RouteRow]:
    """Return the routes that the *manifest* of the model *name* names."""
    found, style = dict(manifest.get("routes", {})), style_of(manifest)
    if manifest.get("pipeline"):
        found[f"/{name}/predict"] = {"steps": manifest["pipeline"]}
    elif manifest.get("stages") and manifest.get("service"):
        found[f"/{name}/predict"] = {"steps": [{"stage": PREDICT}]}
    return [
        RouteRow(
            path,
            msgspec.convert(route["steps"], list[StepRow]),
            instances=route.get("instances", False),
            style=style_of(route, style),
        )
        for path, route in found.items()
    ]


def routes_of_endpoints(
    name: str, manifest: Mapping[str, Any], interfaces: Mapping[str, Interface]
) -> Iterator[RouteRow]:
    """Yield the routes of the endpoints in the code of the model *name*.

    :param interfaces: of its stages; the only one is nameless.
    """
    style = style_of(manifest)
    for stage, interface in interfaces.items():
        for row in interface.endpoints:
            step = StepRow(stage=stage or PREDICT, name=row.name, target=row.name)
            keys = {"envelope": row.envelope, "stream": row.stream, "media_type": row.media_type}
            own = style_of(keys, style)
            path = row.path or f"/{name}/{row.name}"
            yield RouteRow(path, [step], style=own, get=row.get)


def longest_way_s(row: ModelRow) -> float:
    """Return how long a request on the longest route of *row* may take, by its steps' timeouts.

    They are added up as a front-end does it: splitting a list and putting the results together are
    steps too. A step of another model counts as one of the slowest stage.
    """
    stages = {stage.name: stage.predict_timeout_s for stage in row.stages}
    stages |= {guest: stages[stage.name] for stage in row.stages for guest in stage.colocated}
    slowest_s = max(stages.values(), default=row.predict_timeout_s)

    def of_step(step: StepRow) -> float:
        own = 2 if step.each else len(step.inputs) > 1
        return stages.get(step.stage, slowest_s) * (1 + own)

    return max(slowest_s, *(sum(map(of_step, route.steps)) for route in row.routes), 0.0)


class Clash(NamedTuple):
    """A path that two models claim."""

    row: ModelRow
    route: RouteRow
    owner: str  #: the model or route that has the path

    @property
    def text(self) -> str:
        """The problem in words."""
        return f"{self.row.name}: the path {self.route.path} already belongs to {self.owner}"


def clashes(rows: Sequence[ModelRow]) -> list[Clash]:
    """Return the routes of *rows* whose paths are taken, in the order of the rows."""
    owners = {f"/{row.name}/{part}": f"the model {row.name}" for row in rows for part in FIXED}
    found = []
    for row in rows:
        for route in row.routes:
            if route.path == f"/{row.name}/predict":
                continue  # the pipeline of the model itself
            owner = owners.setdefault(route.path, name := f"a route of {row.name}")
            if owner is not name:
                found.append(Clash(row, route, owner))
    return found


def note_clashes(rows: list[ModelRow]) -> list[ModelRow]:
    """Return *rows*, with the problem noted in the routes whose paths are taken."""
    for clash in clashes(rows):
        problem = f"already belongs to {clash.owner}"
        clash.row.routes = [
            msgspec.structs.replace(route, problem=problem) if route is clash.route else route
            for route in clash.row.routes
        ]
    return rows
