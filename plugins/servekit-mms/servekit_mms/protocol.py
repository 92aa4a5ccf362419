# SPDX-License-Identifier: Apache-2.0
"""The front-end half: paths of MMS besides ``/<model>/predict``, which servekit has itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

import msgspec

from servekit.errors import MethodNotAllowed, ModelNotFound, ServekitError
from servekit.extension import HttpResponse, PredictionCall, Protocol, error_fields, error_message
from servekit_mms.description import fragment, swagger
from servekit_mms.served_models import describe_own

if TYPE_CHECKING:
    from collections.abc import Mapping

    from servekit.extension import ModelView, RequestHead, Server
    from servekit_mms.description import Described

__all__ = ["MMSProtocol"]

JSON: Final = "application/json"
DESCRIPTION: Final = b"/api-description"
INVOCATIONS: Final = b"/invocations"
INVOKE: Final = b"/invoke"
#: models with a signature read these as forms or documents, any other type as their only input;
#: used until the interface of the model is known
CONSUMED: Final = (
    *(JSON, "multipart/form-data"),
    *("application/msgpack", "application/x-msgpack", "application/vnd.msgpack"),
)

Found = PredictionCall | HttpResponse | ServekitError | None


class MMSProtocol(Protocol):
    """Answers for models whose task is ``mms``; most bodies are read and written natively."""

    paths = ("/api-description", "/invocations", "/models/", "/predictions/")
    is_selective = True
    envelope = "servekit_mms.raw_bodies:RawBodies"

    def __init__(self, server: Server) -> None:
        """Answer for the models of *server*."""
        self._server = server
        self._seen: Mapping[str, ModelView] | None = None
        self._own: dict[str, Described] = {}

    def find(self, head: RequestHead) -> Found:
        """Return what the path of *head* asks for; ``None`` for models of others."""
        if head.path == DESCRIPTION:
            return self._description(head)
        if head.path == INVOCATIONS:
            return self._invocation(head)
        parts = head.path.decode("utf-8", "replace").split("/")[2:]
        is_invoke = head.path.endswith(INVOKE) and head.path.startswith(b"/models/")
        if is_invoke and len(parts) == 2:
            return self._call(head, parts[0])
        if head.path.startswith(b"/predictions/") and len(parts) <= 2:
            return self._call(head, parts[0], "".join(parts[1:]))
        return None

    def _call(self, head: RequestHead, model: str, version: str = "") -> Found:
        if model not in self._models():
            return None
        if head.method != b"POST":
            return MethodNotAllowed("allowed here: POST", allow="POST")
        is_native = not self._is_raw(head, model)
        return PredictionCall(model=model, version=version, is_native=is_native)

    def _is_raw(self, head: RequestHead, model: str) -> bool:
        """Whether the body is the only input of a signature; handlers of 1.x take any body."""
        media_type = head.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if not self._models()[model].fields:
            return False
        interface = self._server.models[model].interface
        consumed = CONSUMED if interface is None else interface.consumes
        return media_type.decode("latin-1") not in consumed

    def _invocation(self, head: RequestHead) -> Found:
        """Return the call of the model that ``model_name`` names, or of the only one."""
        names = [*self._models()]
        asked = parse_qs(head.query.decode("ascii", "replace")).get("model_name", [""])[-1]
        if asked:
            return self._call(head, asked)
        if len(names) > 1 and len(names) == len(self._server.models):
            listed = ", ".join(sorted(names))
            return ModelNotFound(f"model_name: missing in the query; one of {listed}")
        return self._call(head, names[0]) if len(names) == 1 else None

    def _description(self, head: RequestHead) -> Found:
        """Return the description of MMS, if all models are of MMS."""
        own = self._models()
        if head.method not in (b"GET", b"HEAD") or not own or len(own) < len(self._server.models):
            return None
        described = swagger(
            own,
            head.headers.get(b"host", b"").decode("latin-1"),
            "https" if self._server.settings.tls_certificate else "http",
            needs_token=self._server.needs_token,
        )
        return HttpResponse(200, msgspec.json.encode({"description": described}), JSON)

    def _models(self) -> dict[str, Described]:
        """Return the models of MMS, loaded or not, by name."""
        models = self._server.models
        if models is not self._seen:
            self._own, self._seen = describe_own(models), models
        return self._own

    def error_response(self, error: ServekitError, request_id: str) -> HttpResponse:
        """Return ``{"code": 404, "type": "ModelNotFound", "message": "..."}``."""
        kind, message = type(error).__name__, error_message(error)
        body = msgspec.json.encode({"code": error.status, "type": kind, "message": message})
        fields = error_fields(error)
        return HttpResponse(error.status, body, JSON, request_id, fields=fields, error=error)

    def openapi(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the paths of the protocol."""
        return fragment(document, self._models())
