# SPDX-License-Identifier: Apache-2.0
"""Passes requests for endpoints of a ``ServingFrontend`` on to its program. Runs in: front-end."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from flask import Blueprint, Response, request

from servekit.errors import PluginError, Unavailable
from servekit.extension import Routes, UnixConnection

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["relay_routes"]

TIMEOUT_S: Final = 300.0
#: fields of a response that the server writes itself
OURS: Final = ("connection", "content-length", "date", "server", "transfer-encoding")


class Endpoints(msgspec.Struct):
    """The file that the program has written."""

    socket: str
    endpoints: list[tuple[str, str, str, dict[str, Any]]]  #: path, method, name, definition


def relay_routes(file: Path) -> Routes:
    """Return the endpoints in *file*.

    :raises PluginError: it cannot be read.
    """
    try:
        found = msgspec.json.decode(file.read_bytes(), type=Endpoints)
    except (OSError, msgspec.DecodeError) as error:
        raise PluginError(f"mms.endpoints: {error}") from None
    blueprint = Blueprint("mms_endpoints", __name__)
    paths: dict[str, Any] = {}
    for path, method, name, definition in found.endpoints:
        view = partial(_relay, found.socket)
        blueprint.add_url_rule(path, name, view, methods=[method.upper()])
        summary = str(definition.get("summary", name))
        responses = {"200": {"description": "OK"}}
        operation = {"operationId": name, "summary": summary, "responses": responses}
        paths.setdefault(path, {})[method] = operation
    return Routes(blueprint=blueprint, openapi={"paths": paths})


def _relay(path: str, **_arguments: str) -> Response:
    """Return what the program answers.

    :raises Unavailable: it does not.
    """
    connection = UnixConnection(path, TIMEOUT_S)
    fields = {name: value for name, value in request.headers if name.lower() not in OURS}
    try:
        connection.request(
            request.method, request.environ["RAW_URI"], request.get_data() or None, fields
        )
        answer = connection.getresponse()
        kept = [(name, value) for name, value in answer.getheaders() if name.lower() not in OURS]
        return Response(answer.read(), answer.status, kept)
    except OSError as error:
        raise Unavailable("the program that has this endpoint does not answer") from error
    finally:
        connection.close()
