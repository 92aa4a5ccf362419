# SPDX-License-Identifier: Apache-2.0
"""Health: ``/ping`` says whether the server can predict, and why not."""

from collections.abc import Sequence

from flask import Flask, Response, jsonify

from servekit.errors import NotReady
from servekit.ipc.table import PREPARING, ModelRow, Table, stage_rows
from servekit.web.table import find_model
from servekit.web.view import ServerView

__all__ = ["add_health", "why_not_ready"]


def add_health(app: Flask, server: ServerView) -> None:
    """Add the routes that load balancers and orchestrators watch."""

    def ping() -> Response:
        return _answer(why_not_ready(server))

    def ping_live() -> Response:
        return _answer(())  # the front-end is alive if it answers

    def ping_model(model: str) -> Response:
        return _answer(why_not_ready(server, model))

    app.add_url_rule("/ping", "ping", ping)
    app.add_url_rule("/ping/ready", "ping_ready", ping)
    app.add_url_rule("/ping/live", "ping_live", ping_live)
    app.add_url_rule("/<model>/ping", "ping_model", ping_model)


def _answer(reasons: Sequence[str]) -> Response:
    if not reasons:
        return jsonify(health="healthy!")
    answer = jsonify(health="unhealthy!", reasons=reasons)
    answer.status_code = NotReady.status
    answer.headers["Retry-After"] = str(NotReady.retry_after_s)
    return answer


def why_not_ready(server: ServerView, model: str = "") -> list[str]:
    """Return why *model*, or the server with all of its models, is not ready; nothing if it is.

    An empty server never is.

    :raises ModelNotFound: there is no such model.
    """
    table = server.routing.table
    reasons = _draining(table)
    if model:
        return [*reasons, *_model_reasons(server, find_model(table, model))]
    if not table.models:
        reasons.append("no models")
    reasons += [f"daemon {name} does not run" for name in table.missing_daemons]
    reasons += [f"process {name} does not run" for name in table.missing_processes]
    for row in table.models:
        reasons += _model_reasons(server, row)
    return reasons


def _draining(table: Table) -> list[str]:
    return ["shutting down"] if table.is_draining else []


def _model_reasons(server: ServerView, row: ModelRow) -> list[str]:
    reasons = [f"{row.name}: {problem}" for problem in server.routing.unresolved(row.name)]
    for stage in stage_rows(row):
        if server.routing.live_replicas(stage.label) > 0:
            continue
        if stage.is_asleep or stage.is_waking:
            continue  # the next request gets its answer, a little later
        if row.reason == PREPARING:
            return [f"{row.name}: {PREPARING}"]
        if row.reason:
            return [f"{row.name}: cannot be loaded"]  # why is in the log: it may name paths
        states = ", ".join(f"{replica.index} is {replica.state}" for replica in stage.replicas)
        reasons.append(f"{stage.label}: no replica answers ({states or 'no replicas'})")
    return reasons
