# SPDX-License-Identifier: Apache-2.0
"""The calls that predict: each becomes a request for ``/predictions``, with a form of its input."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import grpc
import msgspec

from servekit.extension import UnixConnection
from servekit_torchserve.grpc.messages import message_class
from servekit_torchserve.management.errors import ServerSilent
from servekit_torchserve.management.upstream import TIMEOUT_S, path_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from http.client import HTTPResponse
    from pathlib import Path

__all__ = ["CODES", "PredictionCalls"]

#: status of HTTP to that of gRPC; others are internal
CODES: Final = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    409: grpc.StatusCode.ALREADY_EXISTS,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    415: grpc.StatusCode.INVALID_ARGUMENT,
    422: grpc.StatusCode.INVALID_ARGUMENT,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
    507: grpc.StatusCode.RESOURCE_EXHAUSTED,
}
PASSED_ON: Final = ("authorization", "x-request-id")  #: metadata that become headers
BOUNDARY_BYTES: Final = 16
ESCAPED: Final = str.maketrans({'"': "%22", "\r": "%0D", "\n": "%0A"})
CHUNK: Final = 1 << 16

PredictionResponse = message_class("inference.PredictionResponse")
HealthResponse = message_class("inference.TorchServeHealthResponse")


class PredictionFailed(Exception):
    """The server refused a prediction, or could not make it."""

    def __init__(self, status: int, text: str) -> None:
        """Say *text*."""
        super().__init__(text)
        self.code = CODES.get(status, grpc.StatusCode.INTERNAL)


class PredictionCalls:
    """The methods of the inference service; each runs in a thread."""

    def __init__(self, clients: Path) -> None:
        """Ask the server at the socket *clients*."""
        self._clients = clients

    def ping(self, _request: Any, context: grpc.ServicerContext) -> Any:
        """Say whether the server is ready."""
        with _aborting(context):
            response = self._send("GET", "/ping", b"", {})
            return HealthResponse(health=response.read().decode().strip())

    def predict(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Answer one request."""
        with _aborting(context):
            response = self._predict(request, _headers_of(context))
            return PredictionResponse(prediction=response.read())

    def stream(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        """Answer one request with every part that its handler sends."""
        with _aborting(context):
            for piece in pieces_of(self._predict(request, _headers_of(context))):
                yield PredictionResponse(prediction=piece)

    def converse(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        """Answer the requests of a stream one after another, errors included."""
        headers = _headers_of(context)
        for request in requests:
            answer = PredictionResponse(sequence_id=request.sequence_id)
            try:
                answer.prediction = self._predict(request, headers).read()
                answer.status.code = grpc.StatusCode.OK.value[0]
            except PredictionFailed as error:
                answer.status.code, answer.status.message = error.code.value[0], str(error)
            yield answer

    def _predict(self, request: Any, headers: Mapping[str, str]) -> HTTPResponse:
        parts = [request.model_name, *filter(None, [request.model_version])]
        body, content_type = form_of(request.input)
        sequence = request.sequence_id if request.HasField("sequence_id") else ""
        more = {"ts_request_sequence_id": sequence} if sequence else {}
        fields = {"Content-Type": content_type, **headers, **more}
        return self._send("POST", path_of("predictions", *parts), body, fields)

    def _send(
        self, method: str, target: str, body: bytes, headers: Mapping[str, str]
    ) -> HTTPResponse:
        """Return the response; its connection closes with it.

        :raises PredictionFailed: its status is an error.
        """
        connection = UnixConnection(self._clients, TIMEOUT_S)
        try:
            connection.request(method, target, body, {**headers, "Connection": "close"})
            response = connection.getresponse()
        except OSError as error:
            connection.close()
            raise PredictionFailed(
                ServerSilent.code, f"the server does not answer: {error}"
            ) from error
        if response.status >= 400 and target != "/ping":
            raise PredictionFailed(response.status, _reason(response.read()))
        return response


@contextmanager
def _aborting(context: grpc.ServicerContext) -> Iterator[None]:
    """End the call with the status of a ``PredictionFailed``."""
    try:
        yield
    except PredictionFailed as error:
        context.abort(error.code, str(error))


def form_of(fields: Mapping[str, bytes]) -> tuple[bytes, str]:
    """Return a form with a part of bytes for each field, and its content type."""
    boundary = secrets.token_hex(BOUNDARY_BYTES)
    parts = [_part(boundary, name) + value + b"\r\n" for name, value in fields.items()]
    body = b"".join([*parts, f"--{boundary}--\r\n".encode()])
    return body, f"multipart/form-data; boundary={boundary}"


def _part(boundary: str, name: str) -> bytes:
    """Return the head of a part; without a media type, its content is bytes for handlers."""
    quoted = name.translate(ESCAPED)
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="{quoted}"\r\n\r\n'
    return head.encode()


def pieces_of(response: HTTPResponse) -> Iterator[bytes]:
    """Yield the chunks of a response, one for each part that was sent; or all of it at once."""
    if not response.chunked:
        yield response.read()
        return
    while size := int(response.fp.readline(CHUNK).partition(b";")[0], 16):
        yield response.fp.read(size)
        response.fp.readline(CHUNK)
    response.close()


def _headers_of(context: grpc.ServicerContext) -> dict[str, str]:
    metadata = context.invocation_metadata() or ()
    return {name: value for name, value in metadata if name in PASSED_ON}


def _reason(content: bytes) -> str:
    """Return the message of an error."""
    try:
        found = msgspec.json.decode(content, type=dict[str, Any])
    except msgspec.MsgspecError:
        return content.decode("utf-8", "replace")
    return str(found.get("message") or found.get("detail") or found)
