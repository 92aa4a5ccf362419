# SPDX-License-Identifier: Apache-2.0
"""Health: ``/ping`` says whether the server can predict, and why not."""

from collections.abc import Sequence

from flask import Flask, Response, jsonify

from servekit.errors import ModelNotFound, NotReady
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


def why_not_ready(server: ServerView, model: str = "", version: str = "") -> list[str]:
    """Return why *model*, or the server with all of its models, is not ready; nothing if it is.

    An empty server never is.

    :param version: of *model*; "" is the default one.
    :raises ModelNotFound: there is no such model or version.
    """
    table = server.routing.table
    reasons = _draining(table)
    if model:
        row = find_model(table, model)
        return [*reasons, *_version_reasons(server, row, version)]
    if not table.models:
        reasons.append("no models")
    reasons += [f"daemon {name} is not running" for name in table.missing_daemons]
    reasons += [f"process {name} is not running" for name in table.missing_processes]
    for row in table.models:
        reasons += _version_reasons(server, row, "")
    return reasons


def _draining(table: Table) -> list[str]:
    return ["shutting down"] if table.is_draining else []


def _version_reasons(server: ServerView, model: ModelRow, version: str) -> list[str]:
    """Return why *version* of *model* is not ready; "" is the default one."""
    row = model.find_version(version) if version else model
    if row is None:
        raise ModelNotFound(model.without_version(version))
    problems = server.routing.unresolved(row.name) if row is model else ()
    reasons = [f"{row.name}: {problem}" for problem in problems]
    for stage in stage_rows(row):
        if server.routing.live_replicas(stage.label, "" if row is model else row.version) > 0:
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
