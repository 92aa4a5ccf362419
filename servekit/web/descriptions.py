# SPDX-License-Identifier: Apache-2.0
"""``/api-description`` and ``/openapi.json``: built once for each routing table."""

import logging
import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from flask import Flask, Response, request

from servekit.description.openapi import openapi
from servekit.description.routes import describe_models
from servekit.description.swagger import swagger
from servekit.errors import PluginError
from servekit.extension.routes import Routes, merged
from servekit.ipc.table import Table
from servekit.web.table import OncePerTable
from servekit.web.view import ServerView

__all__ = ["add_descriptions"]

log = logging.getLogger("servekit.web")

#: a name or an IPv4 address, and a port; Swagger 2.0 has no place for an IPv6 address
HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,252})(:[0-9]{1,5})?")


def add_descriptions(app: Flask, server: ServerView, routes: Sequence[Routes]) -> None:
    """Add the documents that tell programs how to use this server and the *routes* of plugins.

    :raises PluginError: the fragment of a plugin contradicts the document or another fragment.
    """
    swagger_of = OncePerTable(
        lambda table: swagger(describe_models(table.models), needs_token=server.needs_token)
    )

    def describe(table: Table) -> dict[str, Any]:
        document = openapi(describe_models(table.models), needs_token=server.needs_token)
        for each in routes:
            try:
                document = _with_fragment(document, each)
            except PluginError as error:  # it has a path that a model has now
                log.error("/openapi.json leaves out a plugin: %s", error)  # noqa: TRY400 - says it all
        return document

    openapi_of = OncePerTable(describe)
    without_models = openapi((), needs_token=server.needs_token)
    for each in routes:
        without_models = _with_fragment(without_models, each)

    def api_description() -> Response:
        where = {"schemes": [request.scheme]}
        host = request.environ.get("HTTP_HOST", "")
        if HOST.fullmatch(host):
            where["host"] = host
        return _json({"description": {**swagger_of(server.routing.table), **where}})

    def openapi_json() -> Response:
        return _json(openapi_of(server.routing.table))

    app.add_url_rule("/api-description", "api_description", api_description)
    app.add_url_rule("/openapi.json", "openapi", openapi_json)


def _with_fragment(document: dict[str, Any], routes: Routes) -> dict[str, Any]:
    fragment = routes.openapi(document) if callable(routes.openapi) else routes.openapi
    found: dict[str, Any] = merged(document, fragment)
    return found


def _json(document: dict[str, Any]) -> Response:
    # msgspec, because it writes null where an author's schema holds a NaN
    return Response(msgspec.json.encode(document), mimetype="application/json")
