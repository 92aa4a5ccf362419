# SPDX-License-Identifier: Apache-2.0
"""The Flask app of the management listener: models, crashes, metrics and reload."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec
from flask import Flask, Response, jsonify

from servekit.extension.routes import Routes
from servekit.ipc.crash_reports import CrashReport
from servekit.ipc.table import ModelRow, ReplicaRow, stage_rows
from servekit.web.app import add_routes, bare_app, with_links
from servekit.web.health import add_health
from servekit.web.metrics import RouteMetrics
from servekit.web.table import find_model
from servekit.web.view import RoutingView, ServerView

__all__ = ["ManagedView", "create_management"]

LINKS: Final = {
    "health": "/ping",
    "models": "/models",
    "crashes": "/crashes",
    "metrics": "/metrics",
    "reload": "/reload",
}


class ManagedView(ServerView, Protocol):
    """The front-end as its operator sees it."""

    def crashes(self) -> list[CrashReport]:
        """Return the crash reports that are kept, newest last."""
        ...

    def ask_reload(self) -> None:
        """Ask the supervisor to reload, as SIGHUP does."""
        ...


def create_management(
    server: ManagedView, metrics: RouteMetrics, routes: Sequence[Routes] = ()
) -> Flask:
    """Return the WSGI application around *server* with the *routes* of plugins.

    :raises PluginError: a path or a name exists already.
    """
    app = bare_app("servekit.management")
    metrics.measure(app, "management")
    metrics.add_page(app)
    add_health(app, server)
    links = with_links(LINKS, routes)

    def root() -> Response:
        return jsonify(links=links)

    def models() -> Response:
        routing = server.routing
        waiting = routing.waiting()
        return _json({"models": [_model(routing, row, waiting) for row in routing.table.models]})

    def model(name: str) -> Response:
        routing = server.routing
        return _json(_model(routing, find_model(routing.table, name), routing.waiting()))

    def crashes() -> Response:
        return _json({"crashes": server.crashes()})

    def reload() -> Response:
        server.ask_reload()
        answer = jsonify(reload="asked for")
        answer.status_code = 202
        return answer

    app.add_url_rule("/", "root", root)
    app.add_url_rule("/models", "models", models)
    app.add_url_rule("/models/<name>", "model", model)
    app.add_url_rule("/crashes", "crashes", crashes)
    app.add_url_rule("/reload", "reload", reload, methods=["POST"])
    add_routes(app, routes)
    return app


def _json(document: Mapping[str, Any]) -> Response:
    return Response(msgspec.json.encode(document), mimetype="application/json")


def _model(routing: RoutingView, row: ModelRow, waiting: Mapping[str, int]) -> dict[str, Any]:
    return {
        "name": row.name,
        "version": row.version,
        "description": row.description,
        "is_ready": all(routing.live_replicas(stage.label) > 0 for stage in stage_rows(row)),
        "reason": row.reason,
        "waiting": sum(waiting.get(stage.label, 0) for stage in stage_rows(row)),
        "capacity": row.capacity,
        "max_batch_size": row.max_batch_size,
        "predict_timeout_s": row.predict_timeout_s,
        "replicas": [_replica(replica) for replica in row.replicas],
    }


def _replica(replica: ReplicaRow) -> dict[str, Any]:
    return {
        "index": replica.index,
        **({"stage": replica.stage} if replica.stage else {}),
        "state": replica.state,
        "reason": replica.reason,
        "pid": replica.pid or None,
        "restarts": max(0, replica.generation - 1),
    }
