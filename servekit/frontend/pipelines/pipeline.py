# SPDX-License-Identifier: Apache-2.0
"""The steps of a route as a graph: which batcher each has, and what it gets from which."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from servekit.ipc.batches import MODEL_VALUE, MODEL_VALUES, VALUE, VALUES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.errors import ServekitError
    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest
    from servekit.frontend.batching.batcher import Batcher
    from servekit.frontend.exchange.event_loop import EventLoop
    from servekit.frontend.memory.body_arena import BodyArena
    from servekit.frontend.pipelines.values import StepValue
    from servekit.frontend.tracing.trace import RequestTrace
    from servekit.ipc.batches import Calls

__all__ = ["REQUEST", "Node", "Pipeline"]

OF_A_MODEL = (MODEL_VALUE.encode(), MODEL_VALUES.encode())
REQUEST = -1  #: among the sources of a node: what the client sent


class Node(Struct, eq=False):
    """One or more steps that run as one task, or as one task for each element of a list."""

    label: str  #: in ``Server-Timing``; "" for a node between two steps, which only reads
    batcher: Batcher
    sources: list[int]  #: the nodes whose outputs it gets
    names: list[str] = []  #: of the sources, if its input is a mapping
    is_each: bool = False  #: its input is a list, and each element a task
    calls: Calls = ()  #: that its worker runs
    accept: bytes = b""  #: the media type of its output; b"" is up to the client
    single: bytes = VALUE.encode()  #: media type of a value from the node before
    several: bytes = VALUES.encode()  #: media type of a list that can be cut up
    followers: list[int] = []  #: the nodes that get its output
    asked: list[str] = []  #: headers and query parameters that its services want to see

    def takes(self, value: StepValue) -> bool:
        """Whether *value* can be cut up, or put together with others, if the node needs that.

        What a service wrote with a content type of its own can only be read as a whole. Objects of
        classes, and pickles, are only taken from a stage of the same model.
        """
        if self.is_each:
            return value.content_type == self.several
        if self.names or value.content_type in OF_A_MODEL:
            return value.content_type in (self.single, self.several)
        return True


class Pipeline:
    """Nodes, each after its sources. The output of the last one is the answer.

    Made again with each routing table.
    """

    def __init__(self, nodes: Sequence[Node], loop: EventLoop) -> None:
        """Connect *nodes*."""
        self.nodes, self.loop = nodes, loop
        self._batchers = list(dict.fromkeys(node.batcher for node in nodes))
        self.bodies: BodyArena = nodes[0].batcher.bodies  #: where large bodies are received
        self.first = [at for at, node in enumerate(nodes) if set(node.sources) == {REQUEST}]
        self.predict_timeout_s = sum(node.batcher.timeout_s for node in nodes)
        for at, node in enumerate(nodes):
            node.asked = node.batcher.row.asked
            for source in dict.fromkeys(node.sources):
                if source != REQUEST:
                    nodes[source].followers = [*nodes[source].followers, at]
        if len({(each.row.name, each.row.version) for each in self._batchers}) == 1:
            for node in nodes:
                node.single, node.several = MODEL_VALUE.encode(), MODEL_VALUES.encode()
        for node in nodes[:-1]:
            if node.accept:
                continue
            is_cut = any(nodes[at].is_each for at in node.followers)
            node.accept = node.several if is_cut and not node.is_each else node.single

    @property
    def asked(self) -> list[str]:
        """Headers and query parameters that its services want to see."""
        return sorted({name for node in self.nodes for name in node.asked})

    @property
    def is_changing(self) -> bool:
        """Whether replicas of an older version still answer."""
        return any(batcher.pool.leaving for batcher in self._batchers)

    def trace_of(
        self, exchange: Exchange, request: HttpRequest, arrived: float
    ) -> RequestTrace | None:
        """Return the trace of *request*, which begins at *arrived*, if a plugin wants traces.

        The times of a stage are known only while it answers, so every request has a trace.
        """
        tracer = self._batchers[0].tracer
        if tracer is None or exchange.request is None:
            return None
        return tracer.follow(exchange, request, arrived)

    def hold(self, runs: int) -> None:
        """Count *runs* more that need all of its stages until they end."""
        for batcher in self._batchers:
            batcher.hold(runs)

    def refusal(self, body_bytes: int) -> ServekitError | None:
        """Return why no request is taken now: each stage has to be able to take it."""
        refusals = (batcher.admission.refusal(body_bytes) for batcher in self._batchers)
        return next(filter(None, refusals), None)
