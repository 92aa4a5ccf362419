# SPDX-License-Identifier: Apache-2.0
"""The front-end half: which prediction a path names, what models there are, and errors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from servekit.errors import (
    InputError,
    MethodNotAllowed,
    ModelNotFound,
    NotReady,
    RouteNotFound,
    ServekitError,
)
from servekit.extension import HttpResponse, PredictionCall, Protocol, error_fields, error_message
from servekit_kserve_v1.description import fragment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from servekit.extension import RequestHead, Server

__all__ = ["KServeV1"]

PATH = re.compile(r"/v1/models/([^/:]+)(?:/versions/([^/:]+))?(?::([a-z]+))?")
#: by verb: the endpoint of the service, and the member of the response that holds its outputs
VERBS = {"predict": ("", "predictions"), "explain": ("explain", "explanations")}


class KServeV1(Protocol):
    """``/v1/models``, as KServe's V1 protocol and TensorFlow Serving define it."""

    paths = ("/v1/models", "/v1/models/")
    envelope = "servekit_kserve_v1.envelope:Instances"
    call_headers = ()

    def __init__(self, server: Server) -> None:
        """Answer for the models of *server*."""
        self._server = server

    def find(self, head: RequestHead) -> PredictionCall | HttpResponse | ServekitError:
        """Return what the path of *head* names."""
        path = head.path.decode("utf-8", "replace")
        found = PATH.fullmatch(path)
        if found is None and path != "/v1/models":
            return RouteNotFound("no route has this path")
        model, version, verb = found.groups("") if found else ("", "", "")
        if not verb:
            if head.method not in (b"GET", b"HEAD"):
                return MethodNotAllowed("allowed here: GET, HEAD", allow="GET, HEAD")
            return self._status(model, version) if model else self._list()
        if verb not in VERBS:
            return RouteNotFound(f"no route ends in :{verb}; there are :predict and :explain")
        if head.method != b"POST":
            return MethodNotAllowed("allowed here: POST", allow="POST")
        endpoint, member = VERBS[verb]
        return PredictionCall(
            model=model, version=version, endpoint=endpoint, parameters={"member": member}
        )

    def _list(self) -> HttpResponse:
        return _json({"models": list(self._server.models)})

    def _status(self, model: str, version: str) -> HttpResponse | ServekitError:
        """Return what KServe asks for, and what TensorFlow Serving says of a model."""
        default = self._server.models.get(model)
        found = default.find_version(version) if default is not None else None
        if default is None or found is None:
            which = f" of version {version}" if version else ""
            return ModelNotFound(f"no model is called {model}{which}")
        if self._server.why_not_ready(model, found.version):
            return NotReady()
        names = [default.version, *(each.version for each in default.others.values())]
        versions = [
            self._version(model, name)
            for name in ([found.version] if version else dict.fromkeys(names))
        ]
        return _json({"name": model, "ready": True, "model_version_status": versions})

    def _version(self, model: str, version: str) -> dict[str, Any]:
        is_ready = not self._server.why_not_ready(model, version)
        return {
            "version": version,
            "state": "AVAILABLE" if is_ready else "LOADING",
            "status": {"error_code": "OK", "error_message": ""},
        }

    def error_response(self, error: ServekitError, request_id: str) -> HttpResponse:
        """Return ``{"error": "..."}``."""
        status = 400 if isinstance(error, InputError) else type(error).status
        response = _json({"error": error_message(error)}, status)
        response.request_id, response.fields = request_id, error_fields(error)
        return response

    def openapi(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the paths of the protocol."""
        return fragment(document, self._server.models)


def _json(value: Any, status: int = 200) -> HttpResponse:
    return HttpResponse(status, msgspec.json.encode(value), "application/json")
