# SPDX-License-Identifier: Apache-2.0
"""Makes the nodes of a pipeline of the steps of a route, and decides which run in one worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servekit.frontend.pipelines.pipeline import REQUEST, Node
from servekit.ipc.batches import ELEMENT, MethodCall, Reading
from servekit.ipc.stream_formats import STREAM_FORMATS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from servekit.frontend.batching.batcher import Batcher
    from servekit.ipc.table import ModelRow, RouteRow, StepRow

__all__ = ["Unresolved", "plan"]

STREAMED = frozenset(STREAM_FORMATS)


class Unresolved(Exception):
    """A step names something that does not exist; the text says what."""


def plan(
    row: ModelRow,
    route: RouteRow,
    rows: Mapping[str, ModelRow],
    batchers: Mapping[str, Batcher],
) -> list[Node]:
    """Return the nodes of *route* of *row*.

    :param batchers: by the labels of their stages.
    :raises Unresolved: a step names something that does not exist, or the path is taken.
    """
    if route.problem:
        raise Unresolved(route.problem)
    planner = Planner(rows, batchers)
    planner.add(row, route.steps, REQUEST, (row.name,))
    last = planner.nodes[-1]
    if last.is_each:  # and the client gets one answer
        last.accept = ELEMENT.encode()
        planner.add_reader(last.batcher, len(planner.nodes) - 1, Reading.WHOLE)
    return colocated(planner.nodes)


class Planner:
    """Makes a node of each step, and those that read between two steps."""

    def __init__(self, rows: Mapping[str, ModelRow], batchers: Mapping[str, Batcher]) -> None:
        """Plan for the models *rows*, with their *batchers* by the labels of their stages."""
        self._rows = rows
        self._batchers = batchers
        self.nodes: list[Node] = []

    def add(
        self, row: ModelRow, steps: Sequence[StepRow], request: int, inside: tuple[str, ...]
    ) -> int:
        """Add *steps* of *row*, and return the node of their output.

        :param request: the node whose output the first of them gets.
        :param inside: models that the steps are a part of.
        """
        known = {"request": request}
        last = request
        for step in steps:
            sources = [known[name] for name in step.inputs] or [last]
            names = step.inputs if len(step.inputs) > 1 else []
            if step.stage:
                last = self._add_node(step, self._stage(row, step.stage), sources, names)
            else:
                last = self._add_model(step, sources, names, inside)
            known[step.label] = last
        return last

    def add_reader(self, batcher: Batcher, source: int, reading: Reading) -> int:
        """Add a node in which a worker only reads the output of *source*, and writes it again."""
        calls = (MethodCall(method=reading),)
        self.nodes.append(Node("", batcher, [source], calls=calls))
        return len(self.nodes) - 1

    def _stage(self, row: ModelRow, name: str) -> Batcher:
        hosts = {guest: stage.name for stage in row.stages for guest in stage.colocated}
        label = f"{row.name}:{hosts.get(name, name)}" if row.stages else row.name
        return self._batchers[label]

    def _add_model(
        self, step: StepRow, sources: list[int], names: list[str], inside: tuple[str, ...]
    ) -> int:
        row = self._rows.get(step.model)
        if row is None:
            raise Unresolved(f"no model is called {step.model}")
        if row.name in inside:
            raise Unresolved(f"{row.name} contains itself")
        steps = row.own_steps
        if not row.stages and not steps:
            return self._add_node(step, self._batchers[row.name], sources, names)
        if not steps:
            raise Unresolved(f"{row.name} has no /{row.name}/predict")
        if names or step.each:
            raise Unresolved(f"{row.name} has several stages: it takes exactly one unchanged input")
        return self.add(row, steps, sources[0], (*inside, row.name))

    def _add_node(
        self, step: StepRow, batcher: Batcher, sources: list[int], names: list[str]
    ) -> int:
        is_read = names or step.each  # only a worker can read what a client sent
        if is_read and REQUEST in sources:
            reading = Reading.ELEMENTS if step.each else Reading.WHOLE
            reader = self.add_reader(batcher, REQUEST, reading)
            sources = [reader if source == REQUEST else source for source in sources]
        call = MethodCall(step.stage if batcher.row.colocated else "", step.target)
        calls = () if call == MethodCall() else (call,)
        self.nodes.append(Node(step.label, batcher, sources, names, step.each, calls))
        return len(self.nodes) - 1


def colocated(nodes: Sequence[Node]) -> list[Node]:
    """Return *nodes* with neighbours joined whose services run in the same workers."""
    found: list[Node] = []
    moved: dict[int, int] = {REQUEST: REQUEST}
    takers = [source for node in nodes for source in dict.fromkeys(node.sources)]
    for at, node in enumerate(nodes):
        sources = [moved[source] for source in node.sources]
        before = found[sources[0]] if sources != [REQUEST] else None
        if before and takers.count(node.sources[0]) == 1 and _runs_on(before, node):
            before.label = f"{before.label}+{node.label}"
            before.calls += node.calls
            moved[at] = sources[0]
        else:
            node.sources = sources
            moved[at] = len(found)
            found.append(node)
    return found


def _runs_on(one: Node, other: Node) -> bool:
    """Whether a worker can run *other*, which alone gets the output of *one*, right after it."""
    is_chain = not (one.is_each or other.is_each or other.names or _streams(one))
    return is_chain and one.batcher is other.batcher and _is_of_stage(one) and _is_of_stage(other)


def _is_of_stage(node: Node) -> bool:
    return bool(node.calls and node.calls[-1].stage)


def _streams(node: Node) -> bool:
    """Whether the outputs of *node* come one by one, in turns with those of other requests."""
    row = node.batcher.row
    is_host = node.calls[-1:] == (MethodCall(row.stage),)
    return is_host and row.interface is not None and bool(STREAMED & {*row.interface.produces})
