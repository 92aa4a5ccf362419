# SPDX-License-Identifier: Apache-2.0
"""Bodies of responses, made of the outputs of handlers; and errors in TorchServe's form."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from servekit import Response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from servekit_torchserve.context import RequestProcessor

__all__ = [
    "JSON",
    "HandlerResponse",
    "encode_element",
    "error_body",
    "error_response",
    "is_out_of_resources",
    "json_body",
    "response_of",
]

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"
BYTES: Final = "application/octet-stream"
CONTENT_TYPE: Final = "content-type"
#: the types of TorchServe's errors by status; others are internal errors
TYPES: Final = {
    400: "BadRequestException",
    403: "IllegalArgumentException",
    404: "ResourceNotFoundException",
    405: "MethodNotAllowedException",
    408: "RequestTimeoutException",
    409: "ConflictStatusException",
}
INTERNAL: Final = "InternalServerException"


def error_body(code: int, message: str, kind: str = "") -> bytes:
    """Return the body of an error; *kind* is the name of its type, if *code* does not tell it."""
    table = {"code": code, "type": kind or TYPES.get(code, INTERNAL), "message": message}
    return json.dumps(table, indent=2).encode() + b"\n"


def json_body(value: Any) -> bytes:
    """Return *value* as indented JSON, like the pages of TorchServe about itself."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


class HandlerResponse(NamedTuple):
    """The response to one request."""

    body: bytes
    media_type: str = JSON
    status: int = 200
    headers: Mapping[str, str] = {}  # never changed

    def native(self) -> Response:
        """Return it for the path of the model itself."""
        try:
            return Response(self.body, self.status, self.headers, self.media_type)
        except ValueError as error:
            message = f"the handler set a head that no response can have: {error}"
            return error_response(500, message).native()


def error_response(code: int, message: str) -> HandlerResponse:
    """Return the response to a request that a handler did not answer."""
    status = code if 200 <= code <= 599 else 500
    return HandlerResponse(error_body(code, message, INTERNAL), status=status)


def response_of(element: Any, head: RequestProcessor) -> HandlerResponse:
    """Return the response that *element* of a handler's list stands for.

    :param head: what the handler has set.
    """
    try:
        body, media_type = encode_element(element)
    except (TypeError, ValueError, RecursionError):
        return error_response(503, "Unsupported model output data type.")
    if head.is_plain:
        return HandlerResponse(body, media_type)
    headers = dict(head.get_response_headers())
    for name in [name for name in headers if name.lower() == CONTENT_TYPE]:
        media_type = headers.pop(name)
    return HandlerResponse(body, media_type, head.get_response_status_code(), headers)


def encode_element(element: Any) -> tuple[bytes, str]:
    """Return *element* as bytes, and its media type.

    :raises TypeError: JSON cannot hold it.
    """
    if isinstance(element, bytes | bytearray | memoryview):
        return bytes(element), BYTES
    if isinstance(element, str):
        return element.encode(), TEXT
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(element, torch.Tensor):
        saved = io.BytesIO()
        torch.save(element, saved)
        return saved.getvalue(), BYTES
    return _json(element), JSON


def _json(value: Any) -> bytes:
    """Return *value* as ``json.dumps(value, indent=2)`` writes it, which takes much longer."""
    try:
        return msgspec.json.format(json.dumps(value).encode(), indent=2)
    except msgspec.DecodeError:  # NaN, or half of a surrogate pair
        return json.dumps(value, indent=2).encode()


def is_out_of_resources(error: BaseException) -> bool:
    """Whether memory has run out, of the machine or of a device."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and "CUDA" in str(error) and "memory" in str(error)
    )
