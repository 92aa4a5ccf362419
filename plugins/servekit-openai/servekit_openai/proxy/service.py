# SPDX-License-Identifier: Apache-2.0
"""The service ``openai-proxy``: an engine that speaks OpenAI's API, behind this server."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import msgspec

from servekit import Context, Service
from servekit.errors import BootError, CallUnavailable
from servekit_openai.proxy.http_client import EngineClient, EngineResponse
from servekit_openai.proxy.relay import EngineCall, EngineHead
from servekit_openai.tasks import ENGINE

__all__ = ["OpenAIProxy", "ProxyOptions"]

PING_S: Final = 2.0  #: an engine that does not list its models in this time is not well
AGAIN_S: Final = 0.5  #: between two attempts to reach an engine that starts
#: headers of the engine's response that clients get
PASSED: Final = ("retry-after", "retry-after-ms", "x-should-retry", "openai-processing-ms")
LOST: Final = (OSError, EOFError, ValueError, asyncio.LimitOverrunError)


class ProxyOptions(msgspec.Struct, forbid_unknown_fields=True):
    """The keys of ``[options]``."""

    url: str  #: where the API of the engine is: ``http://127.0.0.1:8000/v1``
    model: str = ""  #: the name of the model there; "" is that of this model
    key_variable: str = ""  #: environment variable with the key of the engine
    connect_timeout_s: float = 5.0
    timeout_s: float = 600.0  #: the longest silence of the engine


class OpenAIProxy(Service):
    """Passes requests to an engine, and its responses back, unchanged."""

    task = ENGINE

    def load(self, context: Context) -> None:
        """Read the options."""
        self._options = options = context.read_options(ProxyOptions)
        self._context = context
        self._model = options.model if options.model != context.model else ""
        try:
            self._engine = EngineClient(
                options.url,
                headers=key_headers(options.key_variable),
                connect_s=options.connect_timeout_s,
                silence_s=options.timeout_s,
            )
        except ValueError as error:
            raise BootError(f"options.url: {error}") from None

    async def warm_up(self) -> None:
        """Wait for the engine, which may have to load its model, within the load timeout."""
        is_said = False
        while True:
            try:
                return await self.ping()
            except CallUnavailable as error:
                if not is_said:
                    self._context.logger.warning("waits for the engine: %s", error)
                is_said = True
            await asyncio.sleep(AGAIN_S)

    async def ping(self) -> None:
        """Ask the engine for its models.

        :raises CallUnavailable: it is gone, or not well.
        """
        try:
            async with asyncio.timeout(PING_S), self._engine.request("GET", "/models") as response:
                async for _ in response.pieces():
                    pass
        except LOST as error:
            raise self._lost(error) from error
        if response.status >= 500:
            raise CallUnavailable(self._options.url, response.status)

    async def stream(self, call: EngineCall) -> AsyncIterator[EngineHead | bytes]:
        """Yield the head of the engine's response, and its body as it comes.

        :raises CallUnavailable: the engine is gone.
        """
        path = call.path.removeprefix("/v1")
        body = named(call.body, self._model) if self._model else call.body
        try:
            async with self._engine.request("POST", path, body, self._headers()) as response:
                yield head_of(response)
                pieces = response.pieces()
                while (piece := await self._next(pieces)) is not None:
                    yield piece
        except LOST as error:
            raise self._lost(error) from error

    async def _next(self, pieces: AsyncIterator[bytes]) -> bytes | None:
        async with asyncio.timeout(self._engine.silence_s):
            return await anext(pieces, None)

    def _headers(self) -> Mapping[str, str]:
        """Return the headers of the request to the engine."""
        fields = {"Content-Type": "application/json"}
        for request in self._context.requests:
            fields["X-Request-Id"] = request.request_id
            if "traceparent" in request.headers:
                fields["traceparent"] = request.headers["traceparent"]
        return fields

    def _lost(self, error: BaseException) -> CallUnavailable:
        reason = str(error) or type(error).__name__
        return CallUnavailable(f"{self._options.url} cannot be reached: {reason}")

    def close(self) -> None:
        """Close the connections."""
        self._engine.close()


def key_headers(variable: str) -> dict[str, str]:
    """Return the header with the key in the environment *variable*.

    :raises BootError: it is not set.
    """
    if not variable:
        return {}
    if not (key := os.environ.get(variable, "").strip()):
        raise BootError(f"options.key_variable: {variable} is not set in the environment")
    return {"Authorization": f"Bearer {key}"}


def head_of(response: EngineResponse) -> EngineHead:
    """Return what clients get of the head of *response*."""
    kept = {name: response.headers[name] for name in PASSED if name in response.headers}
    content_type = response.headers.get("content-type", "application/json")
    return EngineHead(response.status, content_type, kept)


def named(body: bytes, model: str) -> bytes:
    """Return *body* with another *model*, and its other members unchanged."""
    try:
        members: dict[str, Any] = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return body  # the engine says what is wrong
    return msgspec.json.encode({**members, "model": model})
