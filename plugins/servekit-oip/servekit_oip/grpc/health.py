# SPDX-License-Identifier: Apache-2.0
"""The health service of gRPC, ``grpc.health.v1.Health``. Runs in: the gRPC process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from servekit_oip.grpc.codes import GrpcError, StatusCode
from servekit_oip.grpc.messages import SERVICE, message_class

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from servekit_oip.grpc.call import GrpcCall

__all__ = ["HEALTH", "HealthService"]

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


class HealthService:
    """Answers whether the server is ready."""

    def __init__(self, is_ready: Callable[[], Awaitable[bool]]) -> None:
        """Ask *is_ready*."""
        self._is_ready = is_ready

    async def check(self, message: bytes, call: GrpcCall) -> bytes:  # noqa: ARG002
        """Answer Check."""
        service = Request.FromString(message).service
        if service not in ("", SERVICE):
            raise GrpcError(StatusCode.NOT_FOUND, f"no service is called {service[:80]!r}")
        return await self._look()

    async def watch(self, messages: AsyncIterator[bytes], call: GrpcCall) -> AsyncIterator[bytes]:  # noqa: ARG002
        """Answer Watch: at once, and at every change."""
        last = b""
        async for message in messages:
            is_known = Request.FromString(message).service in ("", SERVICE)
            while True:
                found = await self._look() if is_known else UNKNOWN
                if found != last:
                    yield found
                last = found
                await asyncio.sleep(LOOK_S)

    async def _look(self) -> bytes:
        return SERVING if await self._is_ready() else NOT_SERVING
