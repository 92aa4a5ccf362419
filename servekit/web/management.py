# SPDX-License-Identifier: Apache-2.0
"""The Flask app of the management listener: models, operations, crashes, metrics and reload."""

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec
from flask import Flask, Response, jsonify

from servekit.extension.routes import Routes
from servekit.ipc.crash_reports import CrashReport
from servekit.web.app import add_routes, bare_app, with_links
from servekit.web.health import add_health
from servekit.web.logs import LoggedView, add_logs
from servekit.web.management_api import describe_management
from servekit.web.metrics import RouteMetrics
from servekit.web.models import add_models
from servekit.web.operations import OperatedView, add_operations

__all__ = ["ManagedView", "create_management"]

JSON: Final = "application/json"
LINKS: Final = {
    "health": "/ping",
    "models": "/models",
    "operations": "/operations",
    "crashes": "/crashes",
    "logs": "/logs",
    "metrics": "/metrics",
    "reload": "/reload",
    "openapi": "/openapi.json",
}


class ManagedView(OperatedView, LoggedView, Protocol):
    """The front-end as its operator sees it."""

    def crashes(self) -> list[CrashReport]:
        """Return the crash reports that are kept, newest last."""
        ...

    def crash(self, number: int) -> CrashReport:
        """Return crash report *number*, with the bodies of requests that were kept."""
        ...

    def ask_reload(self) -> None:
        """Ask the supervisor to reload, as SIGHUP does."""
        ...


def create_management(
    server: ManagedView, metrics: RouteMetrics, routes: Sequence[Routes] = (), url: str = ""
) -> Flask:
    """Return the WSGI application around *server* with the *routes* of plugins.

    :param url: where clients of this machine reach the server; "" if only by a Unix socket.

    :raises PluginError: a path or a name exists already.
    """
    app = bare_app("servekit.management")
    metrics.measure(app, "management")
    metrics.add_page(app)
    add_health(app, server)
    add_models(app, server)
    add_operations(app, server)
    add_logs(app, server)
    links = with_links(LINKS, routes)

    def root() -> Response:
        return jsonify(links=links, url=url)

    def crashes() -> Response:
        return Response(msgspec.json.encode({"crashes": server.crashes()}), mimetype=JSON)

    def crash(number: int) -> Response:
        return Response(msgspec.json.encode(server.crash(number)), mimetype=JSON)

    def reload() -> Response:
        server.ask_reload()
        answer = jsonify(reload="asked for")
        answer.status_code = 202
        return answer

    def openapi() -> Response:
        return jsonify(describe_management())

    app.add_url_rule("/", "root", root)
    app.add_url_rule("/crashes", "crashes", crashes)
    app.add_url_rule("/crashes/<int:number>", "crash", crash)
    app.add_url_rule("/reload", "reload", reload, methods=["POST"])
    app.add_url_rule("/openapi.json", "openapi", openapi)
    add_routes(app, routes)
    return app
