# SPDX-License-Identifier: Apache-2.0
"""The front-end half of gRPC: the paths of inferences, and their errors as text.

Its clients are the gRPC processes. Others find nothing there that the REST half does not offer.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from servekit.errors import MethodNotAllowed, RouteNotFound, ServekitError
from servekit.extension import HttpResponse, PredictionCall, Protocol, error_fields
from servekit_oip.errors import error_text, http_status
from servekit_oip.grpc.wire import error_piece, framed

if TYPE_CHECKING:
    from servekit.extension import RequestHead

__all__ = ["INFER", "STREAM", "GrpcInference"]

INFER: Final = "/inference.GRPCInferenceService/ModelInfer/"  #: then the model, and the version
STREAM: Final = "/inference.GRPCInferenceService/ModelStreamInfer/"


class GrpcInference(Protocol):
    """Takes inferences from the gRPC processes."""

    paths = (INFER, STREAM)
    envelope = "servekit_oip.grpc.envelope:GrpcMessages"
    call_headers = ()

    def find(self, head: RequestHead) -> PredictionCall | ServekitError:
        """Return the prediction that the path of *head* names."""
        if head.method != b"POST":
            return MethodNotAllowed("allowed here: POST", allow="POST")
        return call_of(head.path) or RouteNotFound("the path names no model")

    def error_response(self, error: ServekitError, request_id: str) -> HttpResponse:
        """Return the text of *error*; the gRPC process makes a gRPC status of the HTTP status."""
        text = error_text(error).encode()
        response = HttpResponse(http_status(error), text, "text/plain", request_id)
        response.fields = error_fields(error)
        return response

    def stream_error(self, error: ServekitError, request_id: str) -> bytes:  # noqa: ARG002
        """Return the message that ends a stream."""
        return framed(error_piece(error_text(error)))


@lru_cache(maxsize=1024)
def call_of(path: bytes) -> PredictionCall | None:
    """Return the prediction that *path* names; ``None`` without a model."""
    text = path.decode("utf-8", "replace")
    is_stream = text.startswith(STREAM)
    model, _, version = text.removeprefix(STREAM if is_stream else INFER).partition("/")
    return PredictionCall(model=model, version=version, is_stream=is_stream) if model else None
