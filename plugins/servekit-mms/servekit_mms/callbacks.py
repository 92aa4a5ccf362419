# SPDX-License-Identifier: Apache-2.0
"""Endpoints whose callbacks run in the program that has a ``ServingFrontend``.

The program answers on a Unix socket, which front-ends pass requests on to; see ``relay``.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Self

import flask
from werkzeug.serving import BaseWSGIServer, make_server

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["CallbackEndpoint", "CallbackServer", "FlaskRequestHandler"]

SOCKET: Final = "callbacks.sock"
FILE: Final = "endpoints.json"  #: for the front-ends


@dataclass(frozen=True, slots=True)
class CallbackEndpoint:
    """One path of a program."""

    path: str
    method: str  #: in lower case
    name: str  #: the ``operationId``
    definition: Mapping[str, Any]  #: of the operation, in OpenAPI or Swagger
    callback: Callable[..., Any]

    @classmethod
    def of(
        cls,
        api_definition: Mapping[str, Any],
        callback: Callable[..., Any],
        arguments: Mapping[str, Any],
    ) -> CallbackEndpoint:
        """Return what the first path and its first method define."""
        path, methods = next(iter(api_definition.items()))
        method, definition = next(iter(methods.items()))
        name = definition["operationId"]
        return cls(path, method.lower(), name, definition, partial(callback, **arguments))


class FlaskRequestHandler:
    """Reads requests and writes responses, for callbacks."""

    def __init__(self, app_name: str) -> None:
        """Make the app."""
        self.app = flask.Flask(app_name)

    def get_query_string(self, field: str) -> str | None:
        """Return a parameter of the query."""
        return flask.request.args.get(field)

    def get_form_data(self, field: str) -> str | None:
        """Return a field of the form."""
        return flask.request.form.get(field)

    def get_file_data(self, field: str) -> Any:
        """Return a file of the form."""
        return flask.request.files.get(field)

    def jsonify(self, response: Any) -> flask.Response:
        """Return *response* as JSON."""
        return flask.jsonify(response)

    def send_file(self, file: Any, mimetype: str) -> flask.Response:
        """Return the content of *file*."""
        return flask.send_file(file, mimetype)


class CallbackServer:
    """Answers requests for endpoints in threads, in a ``with``; does nothing if there are none."""

    def __init__(self, app: flask.Flask, endpoints: Sequence[CallbackEndpoint]) -> None:
        """Add *endpoints* to *app*."""
        self._directory = TemporaryDirectory(prefix="servekit-mms-")  # nobody else can enter it
        self._app, self._endpoints = app, endpoints
        self._server: BaseWSGIServer | None = None
        for each in endpoints:
            app.add_url_rule(each.path, each.name, each.callback, methods=[each.method.upper()])

    @property
    def file(self) -> Path:
        """Tells front-ends about the endpoints and the socket."""
        return Path(self._directory.name, FILE)

    def __enter__(self) -> Self:
        socket = Path(self._directory.name, SOCKET)
        rows = [[each.path, each.method, each.name, each.definition] for each in self._endpoints]
        self.file.write_text(json.dumps({"socket": str(socket), "endpoints": rows}), "utf-8")
        if self._endpoints:
            self._server = make_server(f"unix://{socket}", 0, self._app, threaded=True)
            threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
        self._directory.cleanup()
