# SPDX-License-Identifier: Apache-2.0
"""The health service of gRPC, ``grpc.health.v1.Health``. Runs in: the gRPC process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import grpc
from grpc_health.v1 import health_pb2

from servekit_oip.grpc.messages import SERVICE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

__all__ = ["HEALTH", "health_handlers"]

HEALTH: Final = "grpc.health.v1.Health"
LOOK_S: Final = 1.0  #: how often a watched server is asked
Status: Final = health_pb2.HealthCheckResponse.ServingStatus


def health_handlers(
    is_ready: Callable[[], Awaitable[bool]],
) -> dict[str, grpc.RpcMethodHandler]:
    """Return the handlers of the service.

    :param is_ready: asks the server.
    """

    async def look() -> Any:
        status = Status.SERVING if await is_ready() else Status.NOT_SERVING
        return health_pb2.HealthCheckResponse(status=status)

    async def check(message: Any, context: Any) -> Any:
        if message.service not in ("", SERVICE):
            await context.abort(grpc.StatusCode.NOT_FOUND, f"no service {message.service!r}")
        return await look()

    async def watch(message: Any, context: Any) -> AsyncIterator[Any]:  # noqa: ARG001
        if message.service not in ("", SERVICE):
            yield health_pb2.HealthCheckResponse(status=Status.SERVICE_UNKNOWN)
            await asyncio.Event().wait()  # until the client leaves, as the service defines it
        last = None
        while True:
            found = await look()
            if found != last:
                yield found
            last = found
            await asyncio.sleep(LOOK_S)

    codec = (
        health_pb2.HealthCheckRequest.FromString,
        health_pb2.HealthCheckResponse.SerializeToString,
    )
    return {
        "Check": grpc.unary_unary_rpc_method_handler(check, *codec),
        "Watch": grpc.unary_stream_rpc_method_handler(watch, *codec),
    }
