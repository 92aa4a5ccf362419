# SPDX-License-Identifier: Apache-2.0
"""Begins the operations that operators ask for, and keeps their rows for the routing table."""

from collections.abc import Callable, Coroutine
from time import time
from typing import Any

from servekit.ipc.operations import (
    RUNNING,
    Load,
    Operate,
    Operation,
    OperationRow,
    ReloadModels,
    RollBack,
    Scale,
    SetTraffic,
    Swap,
    Unload,
)
from servekit.supervisor.models.model import Model
from servekit.supervisor.models.traffic import WrongTraffic
from servekit.supervisor.operations.loading import (
    add_version,
    check_unload,
    load_model,
    reload_models,
    unload,
)
from servekit.supervisor.operations.progress import OperationFailed, Progress
from servekit.supervisor.operations.rolling_back import check_roll_back, roll_back
from servekit.supervisor.operations.scaling import check_scale, scale
from servekit.supervisor.operations.server import (
    NOT_FOUND,
    UNPROCESSABLE,
    OperatedServer,
    source_of,
)
from servekit.supervisor.operations.swapping import check_swap, swap
from servekit.supervisor.os.coroutines import run_coroutine
from servekit.supervisor.reporting import notices

__all__ = ["Operations"]

Work = Coroutine[Any, Any, None]
UNAVAILABLE = 503
KEPT_S = 600.0  #: how long the row of an operation stays after its end
MAX_ROWS = 100  #: those that run are kept, however many there are


class Operations:
    """All operations of the last minutes."""

    def __init__(
        self,
        server: OperatedServer,
        may_begin: Callable[[], bool],
        on_change: Callable[[], object],
        save: Callable[[], object],
        spread: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        """Begin without operations.

        :param may_begin: whether the first loads are over, and the end of the server has not begun.
        :param on_change: publishes the routing table.
        :param save: writes what an operation has changed to the state file.
        :param spread: returns once every front-end answers by what has changed.
        """
        self.server = server
        self._may_begin = may_begin
        self._on_change = on_change
        self.save = save
        self._spread = spread
        self._rows: dict[str, OperationRow] = {}

    @property
    def rows(self) -> list[OperationRow]:
        """Those that run, and those that have ended lately; the newest last."""
        earliest, known = time() - KEPT_S, list(self._rows.values())
        newest = {row.id for row in known[-MAX_ROWS:] if row.ended >= earliest}
        return [row for row in known if row.state == RUNNING or row.id in newest]

    def begin(self, operate: Operate) -> None:
        """Begin an operation, or note at once why that is not possible."""
        if operate.id in self._rows:
            return
        operation, kind = operate.operation, operate.operation.__struct_config__.tag
        row = OperationRow(operate.id, str(kind), operation.model)
        self._rows = {each.id: each for each in self.rows} | {row.id: row}
        progress = Progress(row, self._on_change)
        self._on_change()
        try:
            self._begin(operation, progress)
        except OperationFailed as error:
            self._fail(progress, error)
        except Exception as error:
            self._fail(progress, OperationFailed(500, f"internal error: {error!r}"))
            raise

    def _begin(self, operation: Operation, progress: Progress) -> None:
        """Check *operation* and start what carries it out.

        :raises OperationFailed: it makes no sense, or the model is busy.
        """
        registry, kind = self.server.registry, progress.row.kind
        if not self._may_begin():
            raise OperationFailed(UNAVAILABLE, "the server starts or stops; try again later")
        if isinstance(operation, ReloadModels):
            if operation.model:
                self.server.model(operation.model)
            work = reload_models(self.server, operation, progress)
            run_coroutine(self.server.loop, self._carry_out(None, work, progress))
        elif isinstance(operation, Load) and registry.find(operation.model) is None:
            source = source_of(operation.source, operation.model, operation.settings)
            newcomer = registry.newcomer(source)
            work = load_model(self.server, newcomer, operation, progress)
            newcomer.work.begin(kind, self._carry_out(None, work, progress))
        else:
            model = self.server.idle_model(operation.model)
            work = self._work(operation, model, progress)
            model.work.begin(kind, self._carry_out(model, work, progress))

    def _work(self, operation: Operation, model: Model, progress: Progress) -> Work:
        """Check *operation* and return what carries it out for *model*."""
        server = self.server
        match operation:
            case Load():
                source_of(operation.source, model.name, operation.settings)
                return add_version(server, model, operation, progress)
            case Unload():
                check_unload(operation, model)
                return unload(server, model, operation, progress)
            case Scale():
                check_scale(operation, model)
                return scale(server, model, operation, progress)
            case Swap():
                check_swap(operation, model)
                return swap(server, model, operation, progress)
            case RollBack():
                check_roll_back(model)
                return roll_back(server, model, progress)
            case SetTraffic():
                _change_traffic(model, operation)
                return _nothing()
            case _:
                raise OperationFailed(NOT_FOUND, "there is no such operation")

    async def _carry_out(self, model: Model | None, work: Work, progress: Progress) -> None:
        try:
            await work
        except OperationFailed as error:
            await self._spread()
            self._fail(progress, error)
        except Exception as error:
            self._fail(progress, OperationFailed(500, f"internal error: {error!r}"))
            raise
        else:
            if model is not None:
                model.is_changed = True
            self.save()
            await self._spread()  # a client that reads "done" is answered by what has changed
            progress.done()
            self._count(progress)
            self.server.registry.reporter.notice(notices.operation_done(progress.row))

    def _fail(self, progress: Progress, error: OperationFailed) -> None:
        progress.failed(error)
        self._count(progress)
        self.server.registry.reporter.notice(notices.operation_failed(progress.row))

    def _count(self, progress: Progress) -> None:
        """Count an operation that has ended."""
        self.server.registry.reporter.tally.operated(progress.row.kind, progress.row.state)


def _change_traffic(model: Model, order: SetTraffic) -> None:
    try:
        model.traffic.change(order)
    except WrongTraffic as error:
        raise OperationFailed(UNPROCESSABLE, str(error)) from error


async def _nothing() -> None:
    """Do nothing: the operation is done already."""
