# SPDX-License-Identifier: Apache-2.0
"""The pages of the two addresses: management, and metrics."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import msgspec
from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from servekit_torchserve.management.errors import CallFailed, ManagementError
from servekit_torchserve.management.openapi import describe_api
from servekit_torchserve.management.parameters import Parameters
from servekit_torchserve.management.upstream import UpstreamError

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit_torchserve.management.access import ManagementAccess
    from servekit_torchserve.management.operations import ChangeAnswer, ManagementOperations
    from servekit_torchserve.management.upstream import Upstream

__all__ = ["create_management", "create_metrics"]

MAX_BODY: Final = 1 << 20
KINDS: Final = {404: "ResourceNotFoundException", 405: "MethodNotAllowedException"}

log = logging.getLogger("servekit.torchserve")


class ManagementApp(Flask):
    """Takes a path with a slash at the end for the one without it."""

    def wsgi_app(self, environ: dict[str, Any], start_response: Any) -> Any:
        """Answer a request."""
        environ["PATH_INFO"] = environ["PATH_INFO"].rstrip("/") or "/"
        return super().wsgi_app(environ, start_response)


def create_management(operations: ManagementOperations, access: ManagementAccess) -> Flask:
    """Return the app of the management address."""
    app = ManagementApp("servekit_torchserve.management", static_folder=None, template_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY
    _add_views(app, operations)
    app.before_request(lambda: _judge(access))
    _add_errors(app)
    return app


def create_metrics(clients: Upstream) -> Flask:
    """Return the app of the address for metrics: the page of the server."""
    app = Flask("servekit_torchserve.metrics", static_folder=None, template_folder=None)
    _add_errors(app)

    @app.get("/metrics")
    def metrics() -> Response:
        query = request.query_string.decode("latin-1")
        accept = {"Accept": request.headers.get("Accept", "*/*")}
        target = f"/metrics?{query}" if query else "/metrics"
        status, media_type, content = clients.fetch("GET", target, headers=accept)
        return Response(content, status, content_type=media_type)

    return app


def _add_views(app: Flask, operations: ManagementOperations) -> None:
    def register() -> Response:
        return _answer(operations.register(_parameters()))

    def list_models() -> Response:
        return _json(operations.list_models(_parameters()))

    def describe(name: str, version: str = "") -> Response:
        return _json(operations.describe_model(name, version))

    def scale(name: str, version: str = "") -> Response:
        return _answer(operations.scale(name, version, _parameters()))

    def unregister(name: str, version: str = "") -> Response:
        return _answer(operations.unregister(name, version))

    def set_default(name: str, version: str) -> Response:
        return _answer(operations.set_default(name, version))

    model, with_version = "/models/<name>", "/models/<name>/<version>"
    views: list[tuple[str, str, Callable[..., Response]]] = [
        ("POST", "/models", register),
        ("GET", "/models", list_models),
        ("GET", model, describe),
        ("GET", with_version, describe),
        ("PUT", model, scale),
        ("PUT", with_version, scale),
        ("DELETE", model, unregister),
        ("DELETE", with_version, unregister),
        ("PUT", f"{with_version}/set-default", set_default),
        ("GET", "/api-description", _describe_api),
        ("OPTIONS", "/", _describe_api),
    ]
    for method, path, view in views:
        name = f"{method} {path}"
        app.add_url_rule(path, name, view, methods=[method], provide_automatic_options=False)


def _describe_api() -> Response:
    return _json(describe_api())


def _parameters() -> Parameters:
    return Parameters(request.args.to_dict(), request.get_data())


def _judge(access: ManagementAccess) -> None:
    """Admit the request; the description of the API is for everybody."""
    if request.method != "OPTIONS" and request.path != "/api-description":
        headers = request.headers
        access.require(headers.get("Authorization", ""), headers.get("Origin", ""))


# ---------------------------------------------------------------- answers


def _answer(answer: ChangeAnswer) -> Response:
    return _json({"status": answer.text}, answer.status)


def _json(value: Any, status: int = 200) -> Response:
    text = msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
    return Response(text, status, content_type="application/json")


def _add_errors(app: Flask) -> None:
    app.register_error_handler(ManagementError, _refused)
    app.register_error_handler(UpstreamError, lambda error: _refused(error.as_error()))
    app.register_error_handler(HTTPException, _unknown)
    app.register_error_handler(Exception, _failed)


def _refused(error: ManagementError) -> Response:
    return _json(error.as_response(), error.code)


def _unknown(error: HTTPException) -> Response:
    code = error.code or 500
    kind = KINDS.get(code, "BadRequestException")
    return _json({"code": code, "type": kind, "message": str(error.description)}, code)


def _failed(error: Exception) -> Response:
    log.error("%s %s failed", request.method, request.path, exc_info=error)
    return _refused(CallFailed("the request failed; the log of the server says why"))
