# SPDX-License-Identifier: Apache-2.0
"""An ingress of Ray Serve: passes requests to the servers of a deployment unchanged.

serve run servekit_ray.serve:ingress name=servekit

Needs ``servekit-ray[serve]``. Runs in: replicas of Ray Serve.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from typing import Any, Final

import httpx
from ray import serve
from servekit_client.servers import Lease, Servers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from servekit.client import ConnectionRefused, Unavailable, Unreachable
from servekit_ray.discovery import RayDiscovery

__all__ = ["ServeIngress", "ingress"]

#: servers say themselves when a request has taken too long
TIMEOUT: Final = httpx.Timeout(None, connect=1.0)
PING_S: Final = 2.0
#: fields of one connection, not of the message (RFC 9110, 7.6.1)
HOP_BY_HOP: Final = frozenset(
    b"connection keep-alive proxy-connection te trailer transfer-encoding upgrade".split()
)
#: fields that the proxy of Ray Serve adds to each response; the id is that of the request
OF_SERVE: Final = frozenset((b"date", b"server", b"x-request-id"))


def ingress(arguments: Mapping[str, str]) -> serve.Application:
    """Return the application, for ``serve.run`` and ``serve run``.

    :param arguments: ``name`` of the deployment (servekit), ``replicas`` of the ingress (1).
    """
    deployment = serve.deployment(
        name="ServekitIngress",
        num_replicas=int(arguments.get("replicas", "1")),
        max_ongoing_requests=1000,  # the servers have the limits
        health_check_period_s=2,
        ray_actor_options={"num_cpus": 0},
    )(ServeIngress)
    return deployment.bind(arguments.get("name", "servekit"))


class ServeIngress:
    """Sends each request to the server with the fewest requests of this replica."""

    def __init__(self, name: str) -> None:
        """Use the servers of the deployment *name*."""
        self._servers = Servers(RayDiscovery(name))
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        self._http = httpx.AsyncClient(
            timeout=TIMEOUT,
            limits=limits,
            trust_env=False,  # the servers are in the cluster: no proxy leads to them
            verify=ssl.create_default_context(),
        )

    async def check_health(self) -> None:
        """Raise unless at least one server says that all its models can answer.

        Ray Serve then shows the deployment as unhealthy.
        """
        await asyncio.to_thread(self._first_look)
        pings = [self._is_ready(url) for url in self._servers.urls]
        if not any(await asyncio.gather(*pings)):
            raise RuntimeError(f"none of {', '.join(self._servers.urls)} is ready")

    def _first_look(self) -> None:
        """Look for servers, if none is known. Blocks."""
        self._servers.lease().abandon()

    async def _is_ready(self, url: str) -> bool:
        try:
            return (await self._http.get(f"{url}/ping", timeout=PING_S)).status_code == 200
        except httpx.TransportError:
            return False

    async def __call__(self, request: Request) -> Response:
        """Return what a server answers: status, headers, and the body as it comes."""
        try:
            answer, lease = await self._send(request)
        except (Unreachable, httpx.TransportError) as error:
            return _problem(str(error) or type(error).__name__)
        response = StreamingResponse(_pieces(answer, lease), answer.status_code)
        response.raw_headers = _fields(answer.headers.raw, HOP_BY_HOP | OF_SERVE)
        return response

    async def _send(self, request: Request) -> tuple[httpx.Response, Lease]:
        """Send *request*, to another server if the first one cannot be reached.

        :raises Unreachable: no server can be reached.
        :raises httpx.TransportError: the connection broke; the request may have run.
        """
        tried: list[str] = []
        body = request.stream()  # is read once a server is reached
        while True:
            if not self._servers.is_ready:
                await asyncio.to_thread(self._first_look)
            lease = self._servers.lease(tried)
            if lease.url in tried:
                lease.abandon()
                raise Unreachable(detail="no server can be reached")
            tried.append(lease.url)
            try:
                answer = await self._http.send(self._copy(request, lease.url, body), stream=True)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                lease.end(ConnectionRefused())
            except httpx.TransportError:
                lease.end(Unreachable())
                raise
            except BaseException:
                lease.abandon()
                raise
            else:
                return answer, lease

    def _copy(self, request: Request, url: str, body: AsyncIterator[bytes]) -> httpx.Request:
        """Return *request* for the server at *url*: the same path, byte for byte."""
        path = request.scope.get("raw_path") or request.scope["path"].encode()
        query = request.scope["query_string"]
        target = httpx.URL(url).copy_with(raw_path=path + (b"?" + query if query else b""))
        headers = _fields(request.headers.raw, HOP_BY_HOP)
        if request.client is not None:
            headers.append((b"x-forwarded-for", request.client.host.encode()))
        has_body = "content-length" in request.headers or "transfer-encoding" in request.headers
        content = body if has_body else None
        return httpx.Request(request.method, target, headers=headers, content=content)


async def _pieces(answer: httpx.Response, lease: Lease) -> AsyncIterator[bytes]:
    """Yield the body as it comes; a client that leaves ends the request at the server, too."""
    try:
        async for piece in answer.aiter_raw():
            yield piece
    finally:
        lease.end(Unavailable() if answer.status_code == 503 else None)
        await answer.aclose()


def _fields(
    pairs: Iterable[tuple[bytes, bytes]], left_out: Collection[bytes]
) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in pairs if name.lower() not in left_out]


def _problem(detail: str) -> Response:
    content: dict[str, Any] = {"type": "about:blank", "title": "Unavailable", "status": 503}
    return JSONResponse(
        {**content, "detail": detail},
        status_code=503,
        headers={"Retry-After": "1"},
        media_type="application/problem+json",
    )
