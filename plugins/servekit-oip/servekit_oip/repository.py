# SPDX-License-Identifier: Apache-2.0
"""The model repository extension: lists, loads and unloads models.

Callers have the management token, unless the operator has opened the repository to everybody.
"""

from __future__ import annotations

from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final

import msgspec
from flask import Blueprint, Response, request
from msgspec import Struct

from servekit.errors import BodyMalformed, InputError, ModelNotFound, ServekitError
from servekit.extension import Load, ReloadModels, Swap, Unload, error_fields, read_json
from servekit_oip.errors import NO_FILES, error_body, http_status
from servekit_oip.metadata import versions_of

if TYPE_CHECKING:
    from servekit.extension import OperationRow, Server

__all__ = ["create_repository"]

JSON: Final = "application/json"
WAIT_S: Final = 600.0
LOOK_S: Final = 1.0  #: how often the sources of models are noted
REACH_S: Final = 5.0  #: how long a front-end may take to reach workers that are ready
POLL_S: Final = 0.01
FILE: Final = "file:"  #: how the names of parameters begin that hold files of a model


class LoadParameters(Struct, frozen=True):
    """The parameters of a load."""

    config: str = ""  #: JSON
    source: str = ""  #: path or URL; "" is for a model that is known, or in the model store


class LoadRequest(Struct):
    """The body of a load."""

    parameters: LoadParameters = LoadParameters()


class NamedParameters(Struct):
    """The body of a load, for the names of its parameters."""

    parameters: dict[str, Any] = {}


class IndexRequest(Struct):
    """The body of a request for the index."""

    ready: bool = False


class ConfigOverride(Struct, forbid_unknown_fields=True):
    """The part of a configuration that can be set at a load."""

    max_batch_size: int | str  #: clients send 64-bit integers as strings


def create_repository(server: Server) -> Blueprint:
    """Return the routes; their views run in greenlets, so they can wait."""
    repository, pages = Repository(server), Blueprint("oip", __name__)
    server.call_every(LOOK_S, repository.note_sources)
    pages.add_url_rule("/v2/repository/index", "index", repository.index, methods=["POST"])
    for verb, view in (("load", repository.load), ("unload", repository.unload)):
        path = f"/v2/repository/models/<name>/{verb}"
        pages.add_url_rule(path, verb, view, methods=["POST"])
    pages.register_error_handler(ServekitError, _answer_error)
    return pages


class Repository:
    """The models that this front-end serves or has served."""

    def __init__(self, server: Server) -> None:
        """Show and change the models of *server*."""
        self._server = server
        self._sources: dict[str, str] = {}  #: sources of models by name

    def note_sources(self) -> None:
        """Remember where the models are from, so that they can be loaded again."""
        self._sources |= {name: model.source for name, model in self._server.models.items()}

    def index(self) -> Response:
        """List all versions of all models; ``{"ready": true}`` asks for those that serve."""
        asked = _body(IndexRequest)
        self.note_sources()
        models, rows = self._server.models, []
        for name, model in models.items():
            rows += [self._row(name, version) for version in versions_of(model)]
        gone = (name for name in self._sources if name not in models)
        rows += [{"name": name, "state": "UNAVAILABLE", "reason": "unloaded"} for name in gone]
        if asked.ready:
            rows = [row for row in rows if row["state"] == "READY"]
        return _json(rows)

    def _row(self, name: str, version: str) -> dict[str, str]:
        is_ready = not self._server.why_not_ready(name, version)
        state, reason = ("READY", "") if is_ready else ("UNAVAILABLE", "not ready")
        return {"name": name, "version": version, "state": state, "reason": reason}

    def load(self, name: str) -> Response:
        """Load a model, or what has changed of one that serves."""
        self.note_sources()
        try:
            parameters = _load_parameters()
            settings = _settings(parameters.config)
            source = self._source(name, parameters.source)
        except ServekitError as error:
            return _failed("load", name, http_status(error), str(error))
        is_served, is_new = name in self._server.models, source != self._sources.get(name)
        if is_served and is_new:
            swap = Swap(model=name, source=source, settings=settings, watch_s=0, keep_s=0)
            return self._run("load", name, swap)
        if is_served and not settings:
            return self._run("load", name, ReloadModels(model=name))
        return self._run("load", name, Load(source=source, model=name, settings=settings))

    def _source(self, name: str, given: str) -> str:
        """Return where the model *name* is: *given*, as before, or in the model store.

        :raises ModelNotFound: nobody knows.
        :raises ServekitError: *given* is not from somebody who may manage the server.
        """
        if given:
            text = request.headers.get("Authorization")
            refusal = self._server.judge_manager(text.encode("latin-1") if text else None)
            if refusal is not None:
                raise refusal
            return given
        if name in self._sources:
            return self._sources[name]
        store = self._server.settings.model_store
        if store and not name.startswith("."):
            for path in (Path(store, name), Path(store, f"{name}.mar")):
                if _exists(path):
                    return str(path)
        where = " or in the model store" if store else ""
        raise ModelNotFound(f"no model of this name is or was served{where}")

    def unload(self, name: str) -> Response:
        """Unload a model with all of its versions."""
        self.note_sources()
        return self._run("unload", name, Unload(model=name))

    def _run(
        self, verb: str, name: str, operation: Load | ReloadModels | Swap | Unload
    ) -> Response:
        row: OperationRow = self._server.operate(operation, WAIT_S)
        if row.state == "done":
            self._wait_ready(name)
            return Response(b"", mimetype=JSON)
        return _failed(verb, name, row.status or 500, row.error or "it takes too long")

    def _wait_ready(self, name: str) -> None:
        """Return when this front-end reaches the workers of a model that has been loaded."""
        deadline = monotonic() + REACH_S
        while name in self._server.models and self._server.why_not_ready(name):
            if monotonic() > deadline:
                return
            sleep(POLL_S)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # the name is too long for a file
        return False


def _load_parameters() -> LoadParameters:
    """Return the parameters in the body.

    :raises BodyMalformed: it is not the body of a load.
    :raises InputError: there are files, which would have to become the model.
    """
    parameters: LoadParameters = _body(LoadRequest).parameters
    if any(name.startswith(FILE) for name in _body(NamedParameters).parameters):
        raise InputError(NO_FILES)
    return parameters


def _settings(config: str) -> dict[str, Any]:
    """Return what *config* overrides, as ``servekit.toml`` has it.

    :raises InputError: it is not JSON, or has other members.
    """
    if not config:
        return {}
    try:
        override = read_json(config, ConfigOverride)
        return {"batching": {"max_batch_size": int(override.max_batch_size)}}
    except ValueError as error:  # every error of msgspec is one
        raise InputError(f"config: {error}".replace("`", "")) from None


def _body(kind: Any) -> Any:
    """Return the body as *kind*; without a body an empty one.

    :raises BodyMalformed: it is not.
    """
    try:
        return read_json(request.get_data() or b"{}", kind)
    except ValueError as error:
        raise BodyMalformed(f"request: {error}".replace("`", "")) from None


def _failed(verb: str, name: str, status: int, reason: str) -> Response:
    return _json({"error": f"failed to {verb} {name[:80]!r}, {reason}"}, status)


def _answer_error(error: ServekitError) -> Response:
    response = Response(error_body(error), http_status(error), mimetype=JSON)
    response.headers.extend(error_fields(error))
    return response


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, mimetype=JSON)
