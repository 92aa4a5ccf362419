# SPDX-License-Identifier: Apache-2.0
"""Changes by operators: requests in, operations of the supervisor out, and their progress.

Every change is an operation. It is answered with 202 and its row while it runs; ``?wait=SECONDS``
waits for its end. Progress comes with the routing tables, so any front-end can answer for it.
"""

import secrets
from collections.abc import Callable
from time import monotonic, time
from typing import Final, Protocol

import msgspec
from flask import Flask, Response
from msgspec import Struct

from servekit.errors import Draining, RouteNotFound
from servekit.ipc.operations import (
    DONE,
    FAILED,
    RUNNING,
    Load,
    Operation,
    OperationRow,
    ReloadModels,
    RollBack,
    Scale,
    SetTraffic,
    Swap,
    Unload,
)
from servekit.web.errors import problem_page, quoted
from servekit.web.requested import (
    asked_body,
    asked_object,
    asked_wait,
    checked,
    checked_operation,
    refusal,
)
from servekit.web.table import find_model
from servekit.web.view import ServerView

__all__ = ["OperatedView", "OperationList", "OperationViews", "add_operations", "operate"]

APPEARS_S: Final = 2.0  #: how long the supervisor may take to show a new operation
POLL_S: Final = 1.0  #: how often a waiting request checks whether the front-end drains


class OperatedView(ServerView, Protocol):
    """The front-end as the place where operators ask for changes."""

    @property
    def is_draining(self) -> bool:
        """Whether this front-end ends: nobody should wait for it."""
        ...

    def begin_operation(self, id_: str, operation: Operation) -> None:
        """Ask the supervisor to begin *operation*; the next tables have its row."""
        ...

    def wait_for_table(self, timeout_s: float) -> None:
        """Return when a new routing table has arrived, or after *timeout_s* seconds."""
        ...


class OperationList(Struct):
    """The operations of the last minutes, newest last."""

    operations: list[OperationRow]


def add_operations(app: Flask, server: OperatedView) -> None:
    """Add the routes that change models, and those that show operations."""
    views = OperationViews(server)
    for method, path, view in (
        ("POST", "/models", views.load),
        ("PUT", "/models/<name>", views.change),
        ("DELETE", "/models/<name>", views.unload),
        ("DELETE", "/models/<name>/versions/<version>", views.unload),
        ("POST", "/models/<name>/swap", views.swap),
        ("POST", "/models/<name>/rollback", views.roll_back),
        ("POST", "/models/<name>/reload", views.reload),
        ("GET", "/operations", views.list_all),
        ("GET", "/operations/<id_>", views.show),
    ):
        app.add_url_rule(path, f"{method} {path}", view, methods=[method])


class OperationViews:
    """The views; each runs in a greenlet, so it can wait."""

    def __init__(self, server: OperatedView) -> None:
        """Ask *server*."""
        self._server = server

    def load(self) -> Response:
        """Load a model, or one more version of one."""
        return self._begin(checked(asked_body(Load)))

    def change(self, name: str) -> Response:
        """Scale a model, or change the traffic of its versions; one of the two at a time."""
        name = self._known(name)
        if "replicas" in asked_object():
            return self._begin(asked_body(Scale, model=name))
        return self._begin(asked_body(SetTraffic, model=name))

    def unload(self, name: str, version: str = "") -> Response:
        """Unload a model, or one version of it."""
        return self._begin(asked_body(Unload, model=self._known(name), version=version))

    def swap(self, name: str) -> Response:
        """Replace the default version."""
        asked = checked(asked_body(Swap, model=self._known(name)))
        if bool(asked.source) == bool(asked.version):
            raise refusal("source", "give a source, or the version of one that is loaded")
        return self._begin(asked)

    def roll_back(self, name: str) -> Response:
        """Make the version before it the default again."""
        return self._begin(asked_body(RollBack, model=self._known(name)))

    def reload(self, name: str) -> Response:
        """Load a model again if its files have changed."""
        return self._begin(asked_body(ReloadModels, model=self._known(name)))

    def list_all(self) -> Response:
        """Show the operations of the last minutes."""
        return _json(OperationList(self._server.routing.table.operations))

    def show(self, id_: str) -> Response:
        """Show one operation, at its end if the request waits for it."""
        server, row = self._server, None
        if _find(server, id_):
            row = _follow(server, id_, _has_ended, asked_wait())
        if row is None:
            raise RouteNotFound(f"no operation has the id {quoted(id_)}")
        return _json(row)

    def _known(self, name: str) -> str:
        """Return *name* if it is the name of a model.

        :raises ModelNotFound: it is not.
        """
        return find_model(self._server.routing.table, name).name

    def _begin(self, operation: Operation) -> Response:
        """Pass *operation* on, and answer with its row or with its failure."""
        return _answer(operate(self._server, operation, asked_wait()))


def operate(server: OperatedView, operation: Operation, wait_s: float) -> OperationRow:
    """Begin *operation*; return its row at its end, or after *wait_s* seconds.

    Runs in a greenlet.

    :raises Draining: the server shuts down.
    :raises InputError: a field of *operation* cannot be what it is.
    """
    operation = checked_operation(operation)
    if server.routing.table.is_draining:
        raise Draining
    id_ = secrets.token_hex(6)
    server.begin_operation(id_, operation)
    row = _follow(server, id_, lambda _row: True, APPEARS_S)
    if row is not None and wait_s:
        row = _follow(server, id_, _has_ended, wait_s)
    return row or _announced(id_, operation)


def _follow(
    server: OperatedView, id_: str, is_enough: Callable[[OperationRow], bool], patience_s: float
) -> OperationRow | None:
    """Return the row of an operation once it *is_enough*, or what there is in the end."""
    deadline = monotonic() + patience_s
    while True:
        row, left = _find(server, id_), deadline - monotonic()
        if (row is not None and is_enough(row)) or left <= 0 or server.is_draining:
            return row
        server.wait_for_table(min(left, POLL_S))


def _find(server: OperatedView, id_: str) -> OperationRow | None:
    rows = server.routing.table.operations
    return next((row for row in rows if row.id == id_), None)


def _has_ended(row: OperationRow) -> bool:
    return row.state != RUNNING


def _announced(id_: str, operation: Operation) -> OperationRow:
    """Return the row of an operation that the supervisor has not shown yet."""
    kind = str(type(operation).__struct_config__.tag)
    return OperationRow(id_, kind, operation.model, began=time())


def _answer(row: OperationRow) -> Response:
    if row.state == FAILED:
        status = row.status or 500
        title = "Operation failed"
        return problem_page(status, title, row.error, {"operation": msgspec.to_builtins(row)})
    answer = _json(row)
    if row.state != DONE:
        answer.status_code = 202
        answer.headers["Location"] = f"/operations/{row.id}"
    return answer


def _json(document: Struct) -> Response:
    return Response(msgspec.json.encode(document), mimetype="application/json")
