# SPDX-License-Identifier: Apache-2.0
"""The services that a worker has loaded."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from servekit.ipc.table import Interface
from servekit.service.base import Service
from servekit.worker.codecs.table import CodecTable
from servekit.worker.prediction.methods import Methods
from servekit.worker.prediction.predictor import Predictor
from servekit.worker.prediction.tracing import Tracing
from servekit.worker.process.log import report
from servekit.worker.streaming.stepping import Stepping

if TYPE_CHECKING:
    from servekit.worker.coroutines.loop import WorkerLoop
    from servekit.worker.transport.calls import CallSockets

__all__ = ["Loaded"]


@dataclass(frozen=True, slots=True)
class Loaded:
    """A service that is ready to predict, and those that share its worker."""

    service: Service
    predictor: Predictor
    interface: Interface
    methods: Methods
    codecs: CodecTable
    #: drives the methods whose outputs come one by one, by their predictors
    steppings: Mapping[Predictor, Stepping] = field(default_factory=dict)
    loop: "WorkerLoop | None" = None  #: if it is async
    measures: Sequence[int] = ()  #: the descriptor of its metrics, if it has any
    calls: "CallSockets | None" = None  #: if its services may call other models
    colocated: Mapping[str, "Loaded"] = field(default_factory=dict)  #: stages of the same worker
    tracing: Tracing = field(default_factory=Tracing)  #: decides which batches are traced

    @property
    def services(self) -> list[Service]:
        """All services of the worker."""
        return [self.service, *(each.service for each in self.colocated.values())]

    def call(self, method: Callable[[], object]) -> None:
        """Call a *method* of the service, in its event loop if it has one. Blocks."""
        if self.loop is None:
            method()
        else:
            self.loop.call(method)

    def close(self) -> None:
        """Let every service release what it holds; log what their ``close`` raises."""
        for service in self.services:
            try:
                self.call(service.close)
            except BaseException as error:  # noqa: BLE001 - an author's close may raise anything
                report("close failed", error)
        if self.loop is not None:
            self.loop.close()
