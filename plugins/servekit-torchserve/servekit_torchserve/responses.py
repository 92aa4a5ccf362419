# SPDX-License-Identifier: Apache-2.0
"""Bodies of responses, made of the outputs of handlers; and errors in TorchServe's form."""

from __future__ import annotations

import io
import json
import sys
from typing import Any, Final

from servekit import Response

__all__ = [
    "JSON",
    "encode_element",
    "error_body",
    "error_response",
    "is_out_of_resources",
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


def error_response(code: int, message: str) -> Response:
    """Return the response to a request that a handler did not answer."""
    status = code if 200 <= code <= 599 else 500
    return Response(error_body(code, message, INTERNAL), status, content_type=JSON)


def response_of(element: Any, status: int, headers: dict[str, str]) -> Response:
    """Return the response that *element* of a handler's list stands for.

    :param headers: that the handler has set.
    """
    rest = {name: value for name, value in headers.items() if name.lower() != CONTENT_TYPE}
    chosen = next((text for name, text in headers.items() if name.lower() == CONTENT_TYPE), "")
    try:
        body, media_type = encode_element(element)
    except (TypeError, ValueError, RecursionError):
        return error_response(503, "Unsupported model output data type.")
    try:
        return Response(body, status, rest, chosen or media_type)
    except ValueError as error:
        return error_response(500, f"the handler set a head that no response can have: {error}")


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
    return json.dumps(element, indent=2).encode(), JSON


def is_out_of_resources(error: BaseException) -> bool:
    """Whether memory has run out, of the machine or of a device."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and "CUDA" in str(error) and "memory" in str(error)
    )
