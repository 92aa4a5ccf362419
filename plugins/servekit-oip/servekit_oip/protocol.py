# SPDX-License-Identifier: Apache-2.0
"""The front-end half over HTTP: finds the prediction of a path, and describes models."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from servekit.errors import MethodNotAllowed, ModelNotFound, NotReady, RouteNotFound, ServekitError
from servekit.extension import HttpResponse, PredictionCall, Protocol, error_fields
from servekit_oip.description import fragment
from servekit_oip.errors import error_body, http_status
from servekit_oip.metadata import (
    model_config,
    model_metadata,
    model_statistics,
    server_metadata,
    versions_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from servekit.extension import ModelView, RequestHead, Server

__all__ = ["OpenInference"]

JSON: Final = "application/json"
MODEL: Final = re.compile(r"/v2/models/([^/]+)(?:/versions/([^/]+))?(?:/([a-z_]+))?")
REPOSITORY: Final = re.compile(r"/v2/repository/(?:index|models/[^/]+/(?:load|unload))")
VERBS: Final = ("infer", "generate", "generate_stream")
LENGTH_FIELD: Final = b"inference-header-content-length"
READING: Final = (b"GET", b"HEAD")
ONLY_POST: Final = "allowed here: POST"


class OpenInference(Protocol):
    """``/v2``, as the Open Inference Protocol and Triton define it."""

    paths = ("/v2", "/v2/")
    envelope = "servekit_oip.envelope:OipRequests"
    call_headers = (LENGTH_FIELD,)
    keep_alive = b": \n\n"

    def __init__(self, server: Server) -> None:
        """Answer for the models of *server*."""
        self._server = server
        self._pages = {
            "/v2": server_metadata,
            "/v2/health/live": lambda: {"live": True},
            "/v2/health/ready": self._ready,
            "/v2/models/stats": self._all_statistics,
        }
        self._model_pages = {
            "": self._metadata,
            "ready": self._model_ready,
            "config": self._config,
            "stats": self._statistics,
        }

    def find(self, head: RequestHead) -> PredictionCall | HttpResponse | ServekitError | None:
        """Return what the path of *head* names; ``None`` for the repository, which waits."""
        path = head.path.decode("utf-8", "replace")
        if REPOSITORY.fullmatch(path):
            return None if head.method == b"POST" else MethodNotAllowed(ONLY_POST, allow="POST")
        page, found = self._pages.get(path), MODEL.fullmatch(path)
        model, version, verb = found.groups("") if found else ("", "", "")
        if found is not None and verb in VERBS:
            if head.method != b"POST":
                return MethodNotAllowed(ONLY_POST, allow="POST")
            return _call(model, version, verb, head.headers.get(LENGTH_FIELD))
        if page is None and (found is None or verb not in self._model_pages):
            return RouteNotFound("no route has this path")
        if head.method not in READING:
            return MethodNotAllowed("allowed here: GET, HEAD", allow="GET, HEAD")
        try:
            if page is not None:
                return _json(page())
            return _json(self._model_pages[verb](*self._models(model, version)))
        except ServekitError as error:
            return error

    # ------------------------------------------------------------ pages

    def _models(self, name: str, version: str) -> tuple[ModelView, ModelView]:
        """Return the default version of a model, and the one that is asked for.

        :raises ModelNotFound: there is no such model or version.
        """
        default = self._server.models.get(name)
        found = default.find_version(version) if default is not None else None
        if default is None or found is None:
            which = f" of version {version[:80]!r}" if version else ""
            raise ModelNotFound(f"no model is called {name[:80]!r}{which}")
        return default, found

    def _ready(self) -> dict[str, Any]:
        if self._server.why_not_ready():
            raise NotReady
        return {"ready": True}

    def _model_ready(self, default: ModelView, found: ModelView) -> dict[str, Any]:
        if self._server.why_not_ready(default.name, found.version):
            raise NotReady
        return {"name": found.name, "ready": True}

    def _metadata(self, default: ModelView, found: ModelView) -> dict[str, Any]:
        is_default = found is default
        return model_metadata(
            _loaded(found), versions_of(default) if is_default else [found.version]
        )

    def _config(self, default: ModelView, found: ModelView) -> dict[str, Any]:  # noqa: ARG002
        return model_config(_loaded(found))

    def _statistics(self, default: ModelView, found: ModelView) -> dict[str, Any]:
        versions = [found] if found is not default else _each_version(default)
        return {"model_stats": [self._counted(each) for each in versions]}

    def _all_statistics(self) -> dict[str, Any]:
        models = self._server.models.values()
        found = [self._counted(each) for model in models for each in _each_version(model)]
        return {"model_stats": found}

    def _counted(self, model: ModelView) -> dict[str, Any]:
        return model_statistics(model, self._server.statistics(model.name, model.version))

    # ------------------------------------------------------------ errors and description

    def error_response(self, error: ServekitError, request_id: str) -> HttpResponse:
        """Return ``{"error": "..."}``."""
        response = HttpResponse(http_status(error), error_body(error), JSON, request_id)
        response.fields = error_fields(error)
        return response

    def stream_error(self, error: ServekitError, request_id: str) -> bytes:  # noqa: ARG002
        """Return the event that ends a stream with *error*."""
        return b"data: %b\n\n" % error_body(error)

    def openapi(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the paths of the protocol."""
        return fragment(document, self._server.models)


def _call(model: str, version: str, verb: str, length: bytes | None) -> PredictionCall:
    parameters = {"verb": verb}
    if length is not None:
        parameters["length"] = length.decode("latin-1").strip(" \t")
    is_stream = verb == "generate_stream"
    return PredictionCall(model=model, version=version, parameters=parameters, is_stream=is_stream)


def _each_version(model: ModelView) -> list[ModelView]:
    versions = (model.find_version(name) for name in versions_of(model))
    return [each for each in versions if each is not None]


def _loaded(model: ModelView) -> ModelView:
    """Return *model* if its tensors are known.

    :raises NotReady: no worker of it has been ready yet.
    """
    if model.interface is None:
        raise NotReady
    return model


def _json(value: Any) -> HttpResponse:
    return HttpResponse(200, msgspec.json.encode(value), JSON)
