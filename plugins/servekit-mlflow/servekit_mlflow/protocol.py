# SPDX-License-Identifier: Apache-2.0
"""The front-end half: which model a request is for, health, the version, and errors."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final

import msgspec

from servekit.errors import (
    InputError,
    MethodNotAllowed,
    NotReady,
    RouteNotFound,
    ServekitError,
)
from servekit.extension import HttpResponse, PredictionCall, Protocol, error_fields, error_message
from servekit_mlflow.description import fragment

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from servekit.extension import ModelView, RequestHead, Server

__all__ = ["MLflowProtocol"]

TASK: Final = "mlflow"
JSON: Final = "application/json"
MLMODEL: Final = "MLmodel"  #: the file that makes a directory an MLflow model
#: the distributions that MLflow may be installed as
DISTRIBUTIONS: Final = ("mlflow-skinny", "mlflow")
ERROR_CODES: Final = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "ENDPOINT_NOT_FOUND",
    429: "REQUEST_LIMIT_EXCEEDED",
    500: "INTERNAL_ERROR",
    501: "NOT_IMPLEMENTED",
    503: "TEMPORARILY_UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
    507: "RESOURCE_EXHAUSTED",
}


class MLflowProtocol(Protocol):
    """The routes of MLflow's scoring server, for models whose task is ``mlflow``."""

    paths = ("/health", "/invocations", "/ping", "/version")
    is_selective = True
    envelope = "servekit_mlflow.envelope:Invocations"

    def __init__(self, server: Server) -> None:
        """Answer for the models of *server*."""
        self._server, self._version = server, _mlflow_version()
        self._seen: Mapping[str, ModelView] | None = None
        self._names: list[str] = []

    def find(self, head: RequestHead) -> PredictionCall | HttpResponse | ServekitError | None:
        """Return what the path of *head* asks for; ``None`` without a model of MLflow."""
        names = self._models()
        if not names:
            return None
        if head.path == b"/invocations":
            return self._invocation(head, names)
        if head.method not in (b"GET", b"HEAD"):
            return MethodNotAllowed("allowed here: GET, HEAD", allow="GET, HEAD")
        if head.path == b"/version":
            return HttpResponse(200, self._version.encode(), JSON)
        return self._health(head)

    def _models(self) -> list[str]:
        """Return the names of the models of MLflow, loaded or not."""
        models = self._server.models
        if models is not self._seen:
            names = [name for name, view in models.items() if _is_own(view)]
            self._seen, self._names = models, names
        return self._names

    def _invocation(self, head: RequestHead, names: list[str]) -> PredictionCall | ServekitError:
        if head.method != b"POST":
            return MethodNotAllowed("allowed here: POST", allow="POST")
        if len(names) > 1:
            paths = ", ".join(f"/{name}/invocations" for name in sorted(names))
            text = f"there are several MLflow models; send the request to one of {paths}"
            return RouteNotFound(text)
        if self._server.models[names[0]].interface is None:
            return NotReady()  # its endpoints are not known yet
        return PredictionCall(model=names[0], endpoint="invocations")

    def _health(self, head: RequestHead) -> HttpResponse | ServekitError | None:
        """Return what MLflow says of a server that is ready.

        On ``/ping``, servekit answers for a server that is not, and for one with other models, too.
        """
        is_ping = head.path == b"/ping"
        if self._server.why_not_ready():
            return None if is_ping else NotReady()
        is_alone = len(self._names) == len(self._server.models)
        return HttpResponse(200, b"\n", JSON) if is_alone or not is_ping else None

    def error_response(self, error: ServekitError, request_id: str) -> HttpResponse:
        """Return ``{"error_code": "BAD_REQUEST", "message": "..."}``."""
        status = 400 if isinstance(error, InputError) else error.status
        code = ERROR_CODES.get(status, "BAD_REQUEST" if status < 500 else "INTERNAL_ERROR")
        body = msgspec.json.encode({"error_code": code, "message": error_message(error)})
        return HttpResponse(status, body, JSON, request_id, fields=error_fields(error), error=error)

    def openapi(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the paths of the protocol."""
        return fragment(document, {name: self._server.models[name] for name in self._models()})


def _is_own(view: ModelView) -> bool:
    """Whether *view* is a model of MLflow, also before its first worker is ready."""
    if view.interface is not None:
        return view.interface.task == TASK
    return view.directory is not None and _has_mlmodel(view.directory)


@lru_cache(maxsize=256)  # front-ends ask again at every change of their models
def _has_mlmodel(directory: Path) -> bool:
    try:
        return (directory / MLMODEL).is_file()
    except OSError:
        return False


def _mlflow_version() -> str:
    """Return the version of MLflow that is installed with the server, or ""."""
    for name in DISTRIBUTIONS:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return ""
