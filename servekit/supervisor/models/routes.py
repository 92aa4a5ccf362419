# SPDX-License-Identifier: Apache-2.0
"""Where models answer besides ``/<model>/predict``, and what two of them want both."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import msgspec

from servekit.ipc.batches import PREDICT
from servekit.ipc.table import Interface, ModelRow, RouteRow, StepRow

__all__ = [
    "clashes",
    "handed_on",
    "longest_way_s",
    "named_routes",
    "note_clashes",
    "routes_of_endpoints",
]

FIXED: Final = ("predict", "ping")  #: what each model has below its name


def named_routes(name: str, manifest: Mapping[str, Any]) -> list[RouteRow]:
    """Return the routes that the *manifest* of the model *name* names."""
    found = dict(manifest.get("routes", {}))
    if manifest.get("pipeline"):
        found[f"/{name}/predict"] = {"steps": manifest["pipeline"]}
    elif manifest.get("stages") and manifest.get("service"):
        found[f"/{name}/predict"] = {"steps": [{"stage": PREDICT}]}
    return [
        RouteRow(
            path,
            msgspec.convert(route["steps"], list[StepRow]),
            instances=route.get("instances", False),
        )
        for path, route in found.items()
    ]


def routes_of_endpoints(name: str, interfaces: Mapping[str, Interface]) -> Iterator[RouteRow]:
    """Yield the routes that the code of the model *name* marks.

    :param interfaces: of its stages; the only one is nameless.
    """
    for stage, interface in interfaces.items():
        for row in interface.endpoints:
            step = StepRow(stage=stage or PREDICT, name=row.name, target=row.name)
            yield RouteRow(row.path or f"/{name}/{row.name}", [step])


def handed_on(routes: Sequence[RouteRow], together: Sequence[str]) -> list[str]:
    """Return the stages whose outputs only the next stage of the same worker gets, as objects.

    :param together: the stages of one worker.
    """
    followers: dict[str, list[StepRow | None]] = {}
    for route in routes:
        for step, after in pairwise([*route.steps, None]):
            if step is not None:
                followers.setdefault(step.stage, []).append(None if step.each else after)

    def is_inner(after: StepRow | None) -> bool:
        is_next = after is not None and not after.each and len(after.inputs) < 2
        return after is not None and is_next and after.stage in together

    return [stage for stage in together if all(map(is_inner, followers.get(stage, [None])))]


def longest_way_s(row: ModelRow) -> float:
    """Return how long a request on the longest route of *row* may take, by its steps' timeouts.

    One after another, as a front-end adds them up; reading what is to be cut up, and putting
    it together, are steps too. A step of another model is taken for one of the slowest stage.
    """
    stages = {stage.name: stage.predict_timeout_s for stage in row.stages}
    stages |= {beside: stages[stage.name] for stage in row.stages for beside in stage.beside}
    slowest_s = max(stages.values(), default=row.predict_timeout_s)

    def of_step(step: StepRow) -> float:
        own = 2 if step.each else len(step.inputs) > 1
        return stages.get(step.stage, slowest_s) * (1 + own)

    return max(slowest_s, *(sum(map(of_step, route.steps)) for route in row.routes), 0.0)


class Clash(NamedTuple):
    """A path that is wanted twice."""

    row: ModelRow
    route: RouteRow
    owner: str  #: who has it

    @property
    def text(self) -> str:
        """Who wants it, and who has it."""
        return f"{self.row.name}: the path {self.route.path} already belongs to {self.owner}"


def clashes(rows: Sequence[ModelRow]) -> list[Clash]:
    """Return the routes of *rows* whose paths others have, in the order of the rows."""
    owners = {f"/{row.name}/{part}": f"the model {row.name}" for row in rows for part in FIXED}
    found = []
    for row in rows:
        for route in row.routes:
            if route.path == f"/{row.name}/predict":
                continue  # its pipeline
            owner = owners.setdefault(route.path, name := f"a route of {row.name}")
            if owner is not name:
                found.append(Clash(row, route, owner))
    return found


def note_clashes(rows: list[ModelRow]) -> list[ModelRow]:
    """Return *rows*; routes whose paths others have say so."""
    for clash in clashes(rows):
        clash.route.problem = f"already belongs to {clash.owner}"
    return rows
