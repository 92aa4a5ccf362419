# SPDX-License-Identifier: Apache-2.0
"""The front-end half: which model answers, whether it is ready, and errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from servekit.errors import InputError, MethodNotAllowed, ModelNotFound, NotReady, ServekitError
from servekit.extension import HttpResponse, PredictionCall, Protocol, error_fields, error_message
from servekit_vertex.environment import MODEL

if TYPE_CHECKING:
    from servekit.extension import RequestHead, Server
    from servekit_vertex.environment import VertexEnvironment

__all__ = ["Vertex"]

#: statuses that Vertex has a code for, or never sees; another one becomes the nearest of them
KNOWN: Final = (400, 401, 403, 404, 405, 409, 429, 499, 500, 501, 503, 504)


class Vertex(Protocol):
    """The two routes of a container: health, and predictions of one model."""

    envelope = "servekit_vertex.envelope:VertexBody"
    keep_alive = b": \n\n"

    def __init__(self, server: Server, platform: VertexEnvironment, model: str) -> None:
        """Answer for a model of *server*.

        :param model: "" is the only one.
        """
        self._server, self._platform, self._name = server, platform, model
        self.paths = (platform.health_route, platform.predict_route)

    def find(self, head: RequestHead) -> PredictionCall | HttpResponse | ServekitError:
        """Return what the path of *head* asks for."""
        if head.path == self._platform.health_route.encode():
            return self._health(head.method)
        if head.method != b"POST":
            return MethodNotAllowed("allowed here: POST", allow="POST")
        model = self._model()
        if isinstance(model, ServekitError):
            return model
        content_type = head.headers.get(b"content-type", b"application/json")
        is_json = content_type.strip().lower().startswith(b"application/json")
        return PredictionCall(model=model, is_native=not is_json)

    def _health(self, method: bytes) -> HttpResponse | ServekitError:
        if method not in (b"GET", b"HEAD"):
            return MethodNotAllowed("allowed here: GET, HEAD", allow="GET, HEAD")
        try:
            reasons = self._server.why_not_ready(self._name)
        except ModelNotFound:
            return NotReady()
        return NotReady() if reasons else HttpResponse(200)

    def _model(self) -> str | ServekitError:
        models = list(self._server.models)
        if self._name or len(models) == 1:
            return self._name or models[0]
        reason = f"{len(models)} models, and {MODEL} does not say which one answers"
        return ModelNotFound(reason) if models else NotReady()

    def error_response(self, error: ServekitError, request_id: str) -> HttpResponse:
        """Return one line of JSON, which Vertex shows its clients as the message of its error."""
        body = msgspec.json.encode({"error": error_message(error), "request_id": request_id})
        fields = error_fields(error)
        return HttpResponse(status_of(error), body, "application/json", request_id, fields=fields)


def status_of(error: ServekitError) -> int:
    """Return a status that Vertex knows; unknown ones would be shown as internal errors."""
    if isinstance(error, InputError):
        return 400
    if error.status in KNOWN:
        return error.status
    return 400 if error.status < 500 else 503
