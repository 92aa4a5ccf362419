# SPDX-License-Identifier: Apache-2.0
"""Requests at the paths of models that cannot be predictions."""

from typing import Final

from flask import Flask, Response, request
from flask.typing import ResponseReturnValue
from werkzeug.exceptions import MethodNotAllowed, NotFound

from servekit.errors import ModelNotFound, NotReady, RouteNotFound
from servekit.ipc.table import ModelRow, Table, path_of_version
from servekit.web.errors import quoted, render, render_http
from servekit.web.table import OncePerTable, find_model
from servekit.web.view import ServerView

__all__ = ["UNREAD", "add_predict_errors"]

UNREAD: Final = frozenset(("predict", "predict_version"))  #: endpoints that only refuse


def add_predict_errors(app: Flask, server: ServerView) -> None:
    """Answer unknown models and versions (404), wrong methods (405) and broken routes (503)."""
    paths_of = OncePerTable(_paths)

    def predict(model: str) -> Response:
        row = find_model(server.routing.table, model)
        if row.stages and request.path not in paths_of(server.routing.table):
            raise RouteNotFound(f"no route has the path {quoted(request.path)}")
        return _answer(model)

    def route() -> ResponseReturnValue | None:
        found = paths_of(server.routing.table).get(request.path)
        return _answer(found[0], may_get=found[1]) if found is not None else None

    def of_version(model: str, version: str, rest: str) -> Response:
        row = find_model(server.routing.table, model)
        found = row.find_version(version)
        if found is None:
            raise ModelNotFound(row.without_version(quoted(version)))
        named = _paths_of_version(model, version, found)
        if request.path not in named:
            raise RouteNotFound(f"{model} {version} has no {quoted(f'/{rest}')}")
        return _answer(model, may_get=named[request.path])

    def unknown(error: NotFound) -> ResponseReturnValue:
        """Wait with "not found" until the model that the path names has loaded for the first time.

        Only then it is known which methods of its own it answers.
        """
        name = request.path.split("/")[1]
        row = next((row for row in server.routing.table.models if row.name == name), None)
        if row is None or row.interface is not None:
            return render_http(error)
        server.wake(row)
        return render(NotReady(name))

    # a rule that names no methods takes them all
    app.url_map.add(app.url_rule_class("/<model>/predict", endpoint="predict"))
    app.view_functions["predict"] = predict
    rule = "/<model>/versions/<version>/<path:rest>"
    app.url_map.add(app.url_rule_class(rule, endpoint="predict_version"))
    app.view_functions["predict_version"] = of_version
    app.before_request(route)
    app.register_error_handler(NotFound, unknown)


def _paths(table: Table) -> dict[str, tuple[str, bool]]:
    """Return the models by the paths of their routes, with whether those answer GET."""
    return {route.path: (row.name, route.get) for row in table.models for route in row.routes}


def _paths_of_version(model: str, version: str, row: ModelRow) -> dict[str, bool]:
    """Return the paths of *version* of *model*, with whether they answer GET."""
    paths = {} if row.stages else {f"/{model}/predict": False}
    paths |= {route.path: route.get for route in row.routes}
    return {path_of_version(model, version, path): get for path, get in paths.items()}


def _answer(model: str, *, may_get: bool = False) -> Response:
    methods = ["GET", "POST"] if may_get else ["POST"]
    if request.method == "OPTIONS":
        return Response(status=204, headers={"Allow": ", ".join(methods)})
    if request.method not in methods:
        raise MethodNotAllowed(methods)
    # a step is missing, or it came with a table newer than the one that routed this request
    raise NotReady(model)
