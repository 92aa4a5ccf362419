# SPDX-License-Identifier: Apache-2.0
"""The health service of gRPC, ``grpc.health.v1.Health``. Runs in: front-ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import gevent

from servekit_oip.grpc.codes import GrpcError, StatusCode
from servekit_oip.grpc.messages import SERVICE, message_class
from servekit_oip.grpc.questions import is_ready

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servekit_oip.grpc.call import GrpcCall

__all__ = ["HEALTH", "check", "watch"]

HEALTH: Final = "grpc.health.v1.Health"
LOOK_S: Final = 1.0  #: how often a watched server is asked
Request: Final = message_class(f"{HEALTH}CheckRequest")
Response: Final = message_class(f"{HEALTH}CheckResponse")
SERVING: bytes
NOT_SERVING: bytes
UNKNOWN: bytes
SERVING, NOT_SERVING, UNKNOWN = (
    Response(status=number).SerializeToString() for number in (1, 2, 3)
)


def check(message: bytes, call: GrpcCall) -> bytes:
    """Answer Check. In a greenlet."""
    service = Request.FromString(message).service
    if service not in ("", SERVICE):
        raise GrpcError(StatusCode.NOT_FOUND, f"no service is called {service[:80]!r}")
    return _look(call)


def watch(call: GrpcCall) -> Iterator[bytes]:
    """Answer Watch: at once, and at every change. In a greenlet."""
    last, call.is_idle = b"", lambda: True
    for message in call.messages():
        is_known = Request.FromString(message.body).service in ("", SERVICE)
        while True:
            found = _look(call) if is_known else UNKNOWN
            if found != last:
                yield found
            last = found
            gevent.sleep(LOOK_S)


def _look(call: GrpcCall) -> bytes:
    return SERVING if is_ready(call) else NOT_SERVING
