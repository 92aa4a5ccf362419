# SPDX-License-Identifier: Apache-2.0
"""The front-end half: which model a request is for, health, and errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from servekit.errors import (
    DeadlineExceeded,
    MethodNotAllowed,
    ModelNotFound,
    OutOfMemory,
    QueueFull,
    RouteNotFound,
    ServekitError,
    Unavailable,
    WorkerLost,
)
from servekit.extension import HttpResponse, PredictionCall, Protocol, error_fields, error_message
from servekit_torchserve.description import describe_model, describe_server, fragment
from servekit_torchserve.responses import JSON, error_body, json_body
from servekit_torchserve.served_models import ServedModels, may_be_own

if TYPE_CHECKING:
    from collections.abc import Mapping

    from servekit.extension import ModelView, RequestHead, Server

__all__ = ["TorchServeProtocol"]

#: method, path, query and header fields
Head = tuple[bytes, bytes, bytes, tuple[tuple[bytes, bytes], ...]]

MAX_KNOWN: Final = 256  #: calls that are kept
ABOUT: Final = ("ping", "api-description")  #: paths about the server
#: headers that say who the client is
NOT_PASSED_ON: Final = frozenset((b"authorization", b"cookie"))
METHODS: Final = (b"POST", b"PUT", b"GET")
ALLOWED: Final = "GET, POST, PUT, OPTIONS"
VERBS: Final = ("predict", "infer", "explain")
NO_MODEL: Final = "Model not found: {}"
NO_VERSION: Final = "Model version: {} does not exist for model: {}"


class VersionMissing(ModelNotFound):
    """The model has no such version."""


TYPES: Final[tuple[tuple[type[ServekitError], str], ...]] = (
    (VersionMissing, "ModelVersionNotFoundException"),
    (ModelNotFound, "ModelNotFoundException"),
    (WorkerLost, "InternalServerException"),
    (QueueFull, "ServiceUnavailableException"),
    (Unavailable, "ServiceUnavailableException"),
    (OutOfMemory, "OutOfMemoryException"),
    (DeadlineExceeded, "InternalServerException"),
)


class TorchServeProtocol(Protocol):
    """TorchServe's inference API, for models whose task is ``torchserve``."""

    paths: tuple[str, ...] = (
        *("/predictions/", "/explanations/", "/invocations", "/ping", "/api-description"),
        *("/models/", "/v1/models/", "/v2/models/"),
    )
    is_selective = True
    envelope = "servekit_torchserve.envelope:TorchServeEnvelope"

    def __init__(self, server: Server) -> None:
        """Answer for the models of *server*."""
        self._server, self._served = server, ServedModels(server)
        #: calls for requests that clients have sent before, while the models are the same
        self._known: dict[Head, PredictionCall] = {}
        self._known_for: Mapping[str, ModelView] | None = None

    def find(self, head: RequestHead) -> PredictionCall | HttpResponse | ServekitError | None:
        """Return what the path of *head* asks for; ``None`` if no archive of TorchServe answers."""
        models = self._server.models
        if models is not self._known_for or len(self._known) >= MAX_KNOWN:
            self._known_for, self._known = models, {}
        key = head.method, head.path, head.query, tuple(head.headers.items())
        known = self._known.get(key)
        if known is not None:
            return known
        found = self._find(head)
        if isinstance(found, PredictionCall):
            self._known[key] = found
        return found

    def _find(self, head: RequestHead) -> PredictionCall | HttpResponse | ServekitError | None:
        first, *rest = head.path.decode("utf-8", "replace").strip("/").split("/")
        if first in ("predictions", "explanations"):
            return self._prediction(head, rest, is_explanation=first == "explanations")
        if first in ABOUT:
            return self._about_server(head, first)
        if not self._served.own():
            return None
        if first in ("v1", "v2"):
            return self._kserve(head, rest[1:])
        if first == "invocations":
            return self._invocation(head)
        return self._invoke(head, rest)

    # ------------------------------------------------------------ predictions

    def _prediction(
        self, head: RequestHead, rest: list[str], *, is_explanation: bool
    ) -> PredictionCall | HttpResponse | ServekitError | None:
        """Return the prediction at ``/predictions/NAME[/VERSION][/REST]``."""
        name, *more = rest or [""]
        if not name:
            return RouteNotFound("the path names no model")
        view = self._server.models.get(name)
        if view is None:
            is_ours = self._served.own() or self._served.are_all()
            return ModelNotFound(NO_MODEL.format(name)) if is_ours else None
        if name not in self._served.own() and not may_be_own(view):
            return None
        if head.method == b"OPTIONS":
            return _json_response(describe_model(view))
        if head.method not in METHODS:
            return MethodNotAllowed(f"allowed here: {ALLOWED}", allow=ALLOWED)
        version, *path = more or [""]
        if view.find_version(version) is None:
            return VersionMissing(NO_VERSION.format(version, name))
        return _call(head, name, version, path="/".join(path), is_explanation=is_explanation)

    def _kserve(self, head: RequestHead, rest: list[str]) -> PredictionCall | None:
        """Return the prediction at the paths of KServe; its other paths are left to plugins."""
        first, *more = rest or [""]
        name, _, verb = first.partition(":")
        verb = verb or "/".join(more)
        if head.method != b"POST" or verb not in VERBS or name not in self._served.own():
            return None
        return _call(head, name, is_explanation=verb == "explain")

    def _invocation(self, head: RequestHead) -> PredictionCall | ServekitError:
        if head.method != b"POST":
            return MethodNotAllowed("allowed here: POST", allow="POST")
        names = sorted(self._served.own())
        if len(names) > 1:
            paths = ", ".join(f"/predictions/{name}" for name in names)
            return RouteNotFound(f"there are several models; send the request to one of {paths}")
        return _call(head, names[0], is_explanation=None)

    def _invoke(self, head: RequestHead, rest: list[str]) -> PredictionCall | None:
        """Return the prediction at `/models/NAME/invoke`."""
        is_known = len(rest) == 2 and rest[1] == "invoke" and rest[0] in self._served.own()
        if head.method != b"POST" or not is_known:
            return None
        return _call(head, rest[0], is_explanation=None)

    # ------------------------------------------------------------ the server

    def _about_server(self, head: RequestHead, path: str) -> HttpResponse | None:
        """Return health or the API, if all models are TorchServe's; otherwise servekit's own."""
        if not self._served.are_all() or head.method not in (b"GET", b"HEAD"):
            return None
        if path == "api-description":
            return _json_response(describe_server(self._server.models))
        if self._server.models and self._server.why_not_ready():
            return _json_response({"status": "Unhealthy"}, 500)
        return _json_response({"status": "Healthy"})

    def error_response(self, error: ServekitError, request_id: str) -> HttpResponse:
        """Return ``{"code": 404, "type": "ModelNotFoundException", "message": "..."}``."""
        kind = next((name for base, name in TYPES if isinstance(error, base)), "")
        body = error_body(error.status, error_message(error), kind)
        return HttpResponse(
            error.status, body, JSON, request_id, fields=error_fields(error), error=error
        )

    def stream_error(self, error: ServekitError, request_id: str) -> bytes:
        """Return the last piece of a stream that fails."""
        return error_body(error.status, error_message(error))

    def openapi(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the paths of the protocol."""
        return fragment(document, self._served.own())


def _call(
    head: RequestHead,
    model: str,
    version: str = "",
    *,
    path: str | None = None,
    is_explanation: bool | None = False,
) -> PredictionCall:
    """Return a prediction; the worker half gets the headers of the request.

    :param path: for the header ``url_path``; ``None`` has none.
    :param is_explanation: for the header ``explain``; ``None`` has none, and passes on the query.
    """
    headers = {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in head.headers.items()
        if name not in NOT_PASSED_ON
    }
    if path is not None:
        headers["url_path"] = path
    if is_explanation is not None:
        headers["explain"] = str(is_explanation)
    parameters = {"headers": msgspec.json.encode(headers).decode()}
    if head.query and is_explanation is None:
        parameters["query"] = head.query.decode("latin-1")
    return PredictionCall(model=model, version=version, parameters=parameters, is_stream=True)


def _json_response(value: Any, status: int = 200) -> HttpResponse:
    return HttpResponse(status, json_body(value), JSON)
