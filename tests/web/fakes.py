# SPDX-License-Identifier: Apache-2.0
"""A front-end that is only a table: it stands where the real one begins."""

import os
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from flask.testing import FlaskClient

from servekit.extension import Routes
from servekit.ipc.counters import Counters, create_memory
from servekit.ipc.kept_log import LogEntry
from servekit.ipc.operations import Operation, OperationRow
from servekit.ipc.table import Interface, ModelRow, ReplicaRow, Table
from servekit.settings import Settings
from servekit.web import RouteMetrics, create_app

if TYPE_CHECKING:
    from prometheus_client import Metric


class FakeServer:
    """A ``ServerView`` whose every answer a test can set; its own ``RoutingView``."""

    def __init__(self, *models: ModelRow) -> None:
        self.settings = Settings()
        self.needs_token = False
        self.table = Table(list(models))
        self.live = {row.name: 1 for row in models}
        self.broken: dict[str, list[str]] = {}
        self.woken: list[str] = []
        self.series: list[Metric] = []
        self.routing = self
        self.collectors = [lambda: self.series]
        self.counters = Counters(create_memory())
        weakref.finalize(self, os.close, self.counters.descriptor)
        self.share = self.counters.share(self.counters.give())

    def live_replicas(self, model: str, version: str = "") -> int:
        return self.live.get(f"{model} {version}" if version else model, 0)

    def wake(self, model: ModelRow) -> None:
        self.woken.append(model.name)

    def unresolved(self, model: str) -> list[str]:
        return self.broken.get(model, [])

    def client(self, *routes: Routes) -> FlaskClient:
        """Return a client of the public app with the *routes* of plugins."""
        return create_app(self, RouteMetrics(self), routes).test_client()


class FakeOperated(FakeServer):
    """A front-end whose supervisor is a list of tables: each wait brings the next one."""

    def __init__(self, *models: ModelRow) -> None:
        super().__init__(*models)
        self.operations: list[Operation] = []
        self.is_draining = False
        #: called with the row of the operation at each wait for a table; the last one stays
        self.turns: list[Callable[[OperationRow], object]] = []
        self.waits: list[float] = []
        self.log: list[LogEntry] = []
        self.log_run = "run-1"

    def begin_operation(self, id_: str, operation: Operation) -> None:
        self.operations.append(operation)
        kind = type(operation).__struct_config__.tag
        self.table.operations.append(OperationRow(id_, kind, operation.model))

    def log_lines(self, after: int) -> tuple[list[LogEntry], int]:
        return self.log[after:], len(self.log)

    def wait_for_table(self, timeout_s: float) -> None:
        self.waits.append(timeout_s)
        if self.turns:
            self.turns.pop(0)(self.table.operations[-1])


def ends(state: str, **fields: object) -> Callable[[OperationRow], None]:
    """Return a turn of the supervisor in which the operation ends."""

    def turn(row: OperationRow) -> None:
        row.state, row.ended = state, row.began + 1.5
        for name, value in fields.items():
            setattr(row, name, value)

    return turn


def model_row(name: str = "digits", interface: Interface | None = None, **more: object) -> ModelRow:
    """Return the row of a model with one serving replica."""
    replica = ReplicaRow(index=0, generation=1, address="/run/0.sock", state="serving")
    values = {
        "version": "1.0",
        "description": "Reads a digit.",
        "replicas": [replica],
        "max_batch_size": 32,
        "max_delay_s": 0.0,
        "predict_timeout_s": 30.0,
        "capacity": 1024,
    }
    return ModelRow(name=name, interface=interface, **{**values, **more})
