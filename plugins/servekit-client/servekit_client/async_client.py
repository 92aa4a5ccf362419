# SPDX-License-Identifier: Apache-2.0
"""The client for asyncio; ``client`` is the same without ``await``."""

import asyncio
from asyncio import sleep
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from functools import partial
from types import TracebackType
from typing import Any, Self

import httpx

from servekit_client.answers import JSON, Answer, Health, names
from servekit_client.attempts import Attempts
from servekit_client.calls import Call, CallBuilder, transport_errors
from servekit_client.descriptions import Description, description
from servekit_client.discovery import Discovery
from servekit_client.errors import ServekitError, Unavailable, is_final
from servekit_client.events import Events
from servekit_client.jobs import AsyncJob
from servekit_client.problems import outcomes, problem
from servekit_client.servers import Lease, Servers

__all__ = ["AsyncClient"]


class AsyncClient:
    """Calls a server, or several, over a pool of connections, from tasks of one loop.

    What is tried again, and what parameters mean, is as in ``Client``.
    """

    def __init__(
        self,
        url: str | Sequence[str] | Discovery,
        *,
        token: str | None = None,
        timeout_s: float = 30.0,
        retries: int = 2,
        hedge_after_s: float | None = None,
        compress: bool = False,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        """Store; nothing is sent yet."""
        self._servers = Servers(url)
        self._server = CallBuilder(token, compress=compress)
        self._hedge_after_s = hedge_after_s
        self._timeout_s = timeout_s
        self._retries = retries
        self._http = http or httpx.AsyncClient()
        self._owns_http = http is None

    async def predict(
        self,
        model: str,
        input: Any,  # noqa: A002 - the word for it everywhere
        *,
        envelope: bool = True,
        timeout_s: float | None = None,
        request_id: str | None = None,
    ) -> Any:
        """Return the output of *model* for one input: number, string, list, dict, bytes or array.

        :raises ServekitError: any of ``servekit_client.errors``.
        """
        call = self._server.predict(model, input, request_id)
        answer = await self._ask(call, timeout_s, may_hedge=True)
        return answer.output if envelope else answer.value

    async def raw(
        self,
        model: str,
        body: bytes,
        content_type: str,
        accept: str = JSON,
        *,
        timeout_s: float | None = None,
        request_id: str | None = None,
    ) -> Answer:
        """Return the response to an encoded body: a picture, a ``.npy`` file, text."""
        call = self._server.raw(model, body, content_type, accept, request_id)
        return await self._ask(call, timeout_s, may_hedge=True)

    async def stream(
        self,
        model: str,
        input: Any,  # noqa: A002
        *,
        raw: bool = False,
        end: str | None = None,
        timeout_s: float | None = None,
        request_id: str | None = None,
    ) -> AsyncGenerator[Any, None]:
        """Yield the outputs of a model that gives one after another.

        A loop that may end early wants ``async with contextlib.aclosing(client.stream(...))``.

        :param raw: as in ``stream`` of the path: outputs are text.
        :param end: as there: data of the last event, "" for none.
        :param timeout_s: the longest silence; a stream may last as long as it likes.
        """
        silence_s = self._timeout_s if timeout_s is None else timeout_s
        call = self._server.stream(model, input, request_id, silence_s)
        attempts = Attempts(self._retries, silence_s, call.request_id)
        response, lease = await self._send(call, attempts, [])
        with lease, transport_errors(call, lease.url):
            async with aclosing(response):
                events = Events(call.request_id, response.headers, raw=raw, end=end)
                async for piece in response.aiter_bytes():
                    for output in events.outputs(piece):
                        yield output
                    if events.is_over:
                        return
                events.require_over()

    async def instances(
        self,
        path: str,
        inputs: Iterable[Any],
        *,
        envelope: bool = True,
        timeout_s: float | None = None,
        request_id: str | None = None,
    ) -> list[Any]:
        """Return the output for each of several inputs, or the ``ServekitError`` in its place.

        :param path: of a route with ``instances = true``.
        :param envelope: as in ``predict``.
        """
        call = self._server.instances(path, inputs, request_id)
        answer = await self._ask(call, timeout_s, may_hedge=True)
        return outcomes(answer, envelope=envelope)

    async def submit(
        self,
        model: str,
        input: Any,  # noqa: A002
        *,
        timeout_s: float | None = None,
        request_id: str | None = None,
    ) -> AsyncJob:
        """Submit a job for *model*; the server needs ``jobs`` for it."""
        call = self._server.submit(model, input, request_id)
        answer = await self._ask(call, timeout_s)
        return AsyncJob(partial(self._ask, only=answer.server), self._server, answer)

    async def models(self) -> list[str]:
        """Return the names of the models of the server."""
        return names(await self._ask(self._server.get()))

    async def describe(self, model: str) -> Description:
        """Return what *model* takes and gives."""
        return description(await self._ask(self._server.get("openapi.json")), model)

    async def ping(self, model: str = "") -> Health:
        """Return whether the server, or one model, can predict just now; never tried again."""
        try:
            await self._ask(self._server.get(model, "ping"), retries=0)
        except Unavailable as error:
            return Health(error.detail or error.title)
        return Health()

    async def close(self) -> None:
        """Close the connections."""
        if self._owns_http:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        """Use the client as a context: it is closed at the end."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _ask(
        self,
        call: Call,
        timeout_s: float | None = None,
        retries: int | None = None,
        *,
        only: str = "",
        may_hedge: bool = False,
    ) -> Answer:
        attempts = Attempts(
            self._retries if retries is None else retries,
            self._timeout_s if timeout_s is None else timeout_s,
            call.request_id,
        )
        if may_hedge and self._hedge_after_s is not None and len(self._servers.urls) > 1:
            return await self._hedge(call, attempts, self._hedge_after_s)
        return await self._answer(call, attempts, [], only)

    async def _hedge(self, call: Call, attempts: Attempts, after_s: float) -> Answer:
        """Ask a second server if the first has not answered *after_s*; take the first answer.

        The other call is cancelled, so its server drops the request.
        """
        tried: list[str] = []  # by either: the second avoids the server of the first
        tasks = [asyncio.ensure_future(self._answer(call, attempts, tried))]
        try:
            done, _ = await asyncio.wait(tasks, timeout=after_s)
            if not done:
                tasks.append(asyncio.ensure_future(self._answer(call, attempts, tried)))
            left = set(tasks)
            while left:
                done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    if is_final(task.exception()):
                        return task.result()
            return tasks[0].result()
        finally:
            for task in tasks:
                task.cancel()

    async def _answer(
        self, call: Call, attempts: Attempts, tried: list[str], only: str = ""
    ) -> Answer:
        response, lease = await self._send(call, attempts, tried, only)
        try:
            body = await self._read(response, call, attempts, lease)
        except ServekitError as error:
            lease.end(error)
            raise
        finally:
            lease.end()
        return Answer(body, response.headers, lease.url)

    async def _send(
        self, call: Call, attempts: Attempts, tried: list[str], only: str = ""
    ) -> tuple[httpx.Response, Lease]:
        """Try until a response is not an error; its body has not been read yet.

        :param tried: the servers that have been asked, which are asked again after all others.
        :param only: the one server to ask.
        """
        while True:
            if self._servers.is_ready:
                lease = self._servers.lease(tried, only)
            else:  # looking up a name may take seconds
                lease = await asyncio.to_thread(self._servers.lease, tried, only)
            tried.append(lease.url)
            try:
                return await self._open(call, attempts, lease), lease
            except ServekitError as error:
                lease.end(error)
                elsewhere = not only and self._servers.has_other(tried)
                pause_s = attempts.pause_s(error, elsewhere=elsewhere)
            except BaseException:
                lease.abandon()
                raise
            await sleep(pause_s)

    async def _open(self, call: Call, attempts: Attempts, lease: Lease) -> httpx.Response:
        with transport_errors(call, lease.url):
            left_s = attempts.left_s()
            request = self._http.build_request(**call.arguments(lease.url, left_s))
            async with asyncio.timeout(None if call.silence_s else left_s):
                response = await self._http.send(request, stream=True)
        if response.is_success:
            return response
        body = await self._read(response, call, attempts, lease)
        raise problem(response.status_code, response.headers, body, call.request_id)

    async def _read(
        self, response: httpx.Response, call: Call, attempts: Attempts, lease: Lease
    ) -> bytes:
        with transport_errors(call, lease.url):
            # an answer in drops must not outlast the call
            async with aclosing(response), asyncio.timeout(attempts.left_s()):
                pieces = [piece async for piece in response.aiter_bytes()]
        return b"".join(pieces)
