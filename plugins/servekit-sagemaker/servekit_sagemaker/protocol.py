# SPDX-License-Identifier: Apache-2.0
"""The front-end half: which model a request is for, whether it is ready, and errors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from servekit.errors import MethodNotAllowed, ModelNotFound, NotReady, RequestError, ServekitError
from servekit.extension import HttpResponse, PredictionCall, Protocol, error_fields, error_message
from servekit_sagemaker.environment import MODEL

if TYPE_CHECKING:
    from servekit.extension import RequestHead, Server
    from servekit_sagemaker.environment import SageMakerEnvironment

__all__ = ["SageMaker"]

INVOKE: Final = re.compile(rb"/models/([^/]+)/invoke")
TARGET: Final = "X-Amzn-SageMaker-Target-Model"


class SageMaker(Protocol):
    """The paths that SageMaker asks. Bodies are those of native routes, answered bare."""

    def __init__(self, server: Server, platform: SageMakerEnvironment, model: str) -> None:
        """Answer for the models of *server*.

        :param model: that answers ``/invocations``; "" is the only one.
        """
        self._server, self._platform, self._model = server, platform, model
        more = ("/models/",) if platform.is_multi_model else ()
        self.paths = ("/ping", "/invocations", *more)

    def find(self, head: RequestHead) -> PredictionCall | HttpResponse | ServekitError | None:
        """Return what the path of *head* asks for."""
        if head.path == b"/ping":
            return self._ping(head.method)
        if head.path == b"/invocations":
            model = self._model_of(head)
        elif found := INVOKE.fullmatch(head.path):
            model = found[1].decode("utf-8", "replace")
        else:
            return None  # the views that load and unload models
        if head.method != b"POST":
            return MethodNotAllowed("allowed here: POST", allow="POST")
        if isinstance(model, ServekitError):
            return model
        return PredictionCall(model=model, is_native=True)

    def _ping(self, method: bytes) -> HttpResponse | ServekitError:
        if method not in (b"GET", b"HEAD"):
            return MethodNotAllowed("allowed here: GET, HEAD", allow="GET, HEAD")
        return HttpResponse(200 if self._is_ready() else NotReady.status)

    def _is_ready(self) -> bool:
        """Whether requests should come; a multi-model endpoint is ready before its models are."""
        if self._platform.is_multi_model:
            return not self._server.is_shutting_down
        try:
            return not self._server.why_not_ready(self._model)
        except ModelNotFound:
            return False

    def _model_of(self, head: RequestHead) -> str | ServekitError:
        """Return the model that ``/invocations`` asks."""
        if self._platform.is_multi_model:
            name = head.headers.get(TARGET.lower().encode(), b"").decode("latin-1")
            return name or RequestError(f"{TARGET}: missing, and this endpoint has several models")
        if self._model:
            return self._model
        models = list(self._server.models)
        if len(models) == 1:
            return models[0]
        reason = f"{len(models)} models, and {MODEL} does not say which one answers"
        return ModelNotFound(reason) if models else NotReady()

    def error_response(self, error: ServekitError, request_id: str) -> HttpResponse:
        """Return one line of JSON: it is what SageMaker's clients see of an error.

        They do not see headers, so it has the request id, which leads to the line in the log.
        """
        body = msgspec.json.encode({"error": error_message(error), "request_id": request_id})
        fields = error_fields(error)
        return HttpResponse(error.status, body, "application/json", request_id, fields=fields)
