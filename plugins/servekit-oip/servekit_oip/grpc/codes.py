# SPDX-License-Identifier: Apache-2.0
"""The status codes of gRPC."""

from enum import IntEnum
from typing import Final

__all__ = ["GrpcError", "StatusCode", "code_of"]


class StatusCode(IntEnum):
    """The codes that this server sends."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


class GrpcError(Exception):
    """The call ends with this status."""

    def __init__(
        self, code: StatusCode, text: str, trailers: tuple[tuple[str, str], ...] = ()
    ) -> None:
        """Say why; *trailers* are sent besides."""
        super().__init__(text)
        self.code, self.text, self.trailers = code, text, trailers


#: the code for each HTTP status
CODES: Final = {
    401: StatusCode.UNAUTHENTICATED,
    403: StatusCode.PERMISSION_DENIED,
    404: StatusCode.NOT_FOUND,
    409: StatusCode.ALREADY_EXISTS,
    413: StatusCode.RESOURCE_EXHAUSTED,
    429: StatusCode.RESOURCE_EXHAUSTED,
    431: StatusCode.RESOURCE_EXHAUSTED,
    501: StatusCode.UNIMPLEMENTED,
    503: StatusCode.UNAVAILABLE,
    504: StatusCode.DEADLINE_EXCEEDED,
    507: StatusCode.RESOURCE_EXHAUSTED,
}


def code_of(status: int) -> StatusCode:
    """Return the code for an HTTP *status*."""
    other = StatusCode.INTERNAL if status >= 500 else StatusCode.INVALID_ARGUMENT
    return CODES.get(status, other)
