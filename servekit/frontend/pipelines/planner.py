# SPDX-License-Identifier: Apache-2.0
"""From the routes of a routing table to pipelines, whose steps are batchers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servekit.frontend.pipelines.pipeline import REQUEST, Place
from servekit.ipc.batches import MethodCall, Reading
from servekit.ipc.stream_formats import STREAM_FORMATS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from servekit.frontend.batching.batcher import Batcher
    from servekit.ipc.table import ModelRow, RouteRow, StepRow

STREAMED = frozenset(STREAM_FORMATS)

__all__ = ["Unresolved", "resolve"]


class Unresolved(Exception):
    """A step names what is not there; the text says which."""


class Resolver:
    """Makes places of the steps of one route."""

    def __init__(self, rows: Mapping[str, ModelRow], batchers: Mapping[str, Batcher]) -> None:
        self._rows = rows
        self._batchers = batchers
        self.places: list[Place] = []

    def add(
        self, row: ModelRow, steps: Sequence[StepRow], request: int, inside: tuple[str, ...]
    ) -> int:
        """Add *steps* of *row*, and return where their output is.

        :param request: where what the first of them gets is.
        :param inside: models that the steps are a part of.
        """
        known = {"request": request}
        last = request
        for step in steps:
            sources = [known[name] for name in step.inputs] or [last]
            names = step.inputs if len(step.inputs) > 1 else []
            if step.stage:
                last = self._add_place(step, self._stage(row, step.stage), sources, names)
            else:
                last = self._add_model(step, sources, names, inside)
            known[step.label] = last
        return last

    def finish(self) -> list[Place]:
        """Return the places; the last one writes what the client accepts."""
        last = self.places[-1]
        if last.is_each:  # and the client is to get one answer
            self._add_own(last.batcher, len(self.places) - 1, Reading.WHOLE)
        return _joined(self.places)

    def _stage(self, row: ModelRow, name: str) -> Batcher:
        hosts = {beside: stage.name for stage in row.stages for beside in stage.beside}
        label = f"{row.name}:{hosts.get(name, name)}" if row.stages else row.name
        return self._batchers[label]

    def _add_model(
        self, step: StepRow, sources: list[int], names: list[str], inside: tuple[str, ...]
    ) -> int:
        row = self._rows.get(step.model)
        if row is None:
            raise Unresolved(f"no model is called {step.model}")
        if row.name in inside:
            raise Unresolved(f"{row.name} is a part of itself")
        if not row.stages and not _steps(row):
            return self._add_place(step, self._batchers[row.name], sources, names)
        steps = _steps(row)
        if not steps:
            raise Unresolved(f"{row.name} has no /{row.name}/predict")
        if names or step.each:
            raise Unresolved(f"{row.name} has several stages: it takes one input, as it is")
        return self.add(row, steps, sources[0], (*inside, row.name))

    def _add_place(
        self, step: StepRow, batcher: Batcher, sources: list[int], names: list[str]
    ) -> int:
        is_read = names or step.each  # what the client sent is not: only a worker can
        if is_read and REQUEST in sources:
            reading = Reading.ELEMENTS if step.each else Reading.WHOLE
            own = self._add_own(batcher, REQUEST, reading)
            sources = [own if source == REQUEST else source for source in sources]
        call = MethodCall(step.stage if batcher.row.beside else "", step.target)
        calls = () if call == MethodCall() else (call,)
        self.places.append(Place(step.label, batcher, sources, names, step.each, calls))
        return len(self.places) - 1

    def _add_own(self, batcher: Batcher, source: int, reading: Reading) -> int:
        """Add a step of our own: a worker of *batcher* reads what is there, and writes it anew."""
        self.places.append(Place("", batcher, [source], [], calls=(MethodCall(method=reading),)))
        return len(self.places) - 1


def _joined(places: list[Place]) -> list[Place]:
    """Return *places* with those made one that follow one another in the same workers."""
    found: list[Place] = []
    moved: dict[int, int] = {REQUEST: REQUEST}
    takers = [source for place in places for source in dict.fromkeys(place.sources)]
    for at, place in enumerate(places):
        sources = [moved[source] for source in place.sources]
        before = found[sources[0]] if sources != [REQUEST] else None
        if before and takers.count(place.sources[0]) == 1 and _runs_on(before, place):
            before.label = f"{before.label}+{place.label}"
            before.calls += place.calls
            moved[at] = sources[0]
        else:
            place.sources = sources
            moved[at] = len(found)
            found.append(place)
    return found


def _runs_on(one: Place, other: Place) -> bool:
    """Whether *other*, which alone gets what *one* gives, can follow it within a worker."""
    is_chain = not (one.is_each or other.is_each or other.names or _streams(one))
    is_of_one_worker = one.batcher is other.batcher and _names_stage(one) and _names_stage(other)
    return is_chain and is_of_one_worker


def _names_stage(place: Place) -> bool:
    return bool(place.calls and place.calls[-1].stage)


def _streams(place: Place) -> bool:
    """Whether the outputs of *place* come one by one, each in a turn with those of others."""
    row: ModelRow = place.batcher.row
    is_host = place.calls[-1:] == (MethodCall(row.stage),)
    return is_host and row.interface is not None and bool(STREAMED & {*row.interface.produces})


def _steps(row: ModelRow) -> Sequence[StepRow]:
    """Return the steps of a model's own path; none: its only stage."""
    path = f"/{row.name}/predict"
    return next((route.steps for route in row.routes if route.path == path), ())


def resolve(
    row: ModelRow,
    route: RouteRow,
    rows: Mapping[str, ModelRow],
    batchers: Mapping[str, Batcher],
) -> list[Place]:
    """Return the places of *route* of *row*.

    :param batchers: by the labels of their stages.
    :raises Unresolved: a step is not there, or the path is another's.
    """
    if route.problem:
        raise Unresolved(route.problem)
    resolver = Resolver(rows, batchers)
    resolver.add(row, route.steps, REQUEST, (row.name,))
    return resolver.finish()


def is_one_run(row: ModelRow, route: RouteRow, places: Sequence[Place]) -> bool:
    """Whether *route* is what *row* predicts by, and its workers do all of it in one go."""
    is_own = route.path == f"/{row.name}/predict" and not route.instances
    return is_own and len(places) == 1 and places[0].batcher.row.name == row.name
