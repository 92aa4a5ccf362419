# SPDX-License-Identifier: Apache-2.0
"""The client for threads; ``async_client`` is the same with ``await``."""

from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from contextlib import closing
from functools import partial
from time import sleep
from typing import Any, Final, Self

import httpx

from servekit_client.answers import JSON, Answer, Health, names
from servekit_client.attempts import Attempts
from servekit_client.calls import Call, CallBuilder, transport_errors
from servekit_client.descriptions import Description, description
from servekit_client.discovery import Discovery
from servekit_client.errors import ServekitError, Unavailable, is_final
from servekit_client.events import Events
from servekit_client.jobs import Job
from servekit_client.problems import outcomes, problem
from servekit_client.servers import Lease, Servers

__all__ = ["Client"]

HEDGED_CALLS: Final = 64  #: at the same time; further ones wait


class Client:
    """Calls a server, or several, over a pool of connections; any number of threads may share it.

    Of several servers, the one with the fewest calls of this client gets the next call. One that
    does not answer rests for a second, then up to half a minute. A call that meets a closed port, a
    full queue (429) or no worker (503) is tried again: at once at another server, otherwise after
    as long as the server asks, while its time lasts. After any other error it is not.
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
        http: httpx.Client | None = None,
    ) -> None:
        """Store; nothing is sent yet.

        :param url: ``http://127.0.0.1:8080``; or several, of servers with the same models; or
            a ``Discovery``, which finds them.
        :param token: sent with every call, as ``Authorization: Bearer``.
        :param timeout_s: of one call, its retries included.
        :param retries: at most so many for each call, besides tries at other servers.
        :param hedge_after_s: ask a second server too if the first has not answered by then,
            and take the first answer. Only for models that may run twice; ``predict``, ``raw`` and
            ``instances`` do.
        :param compress: inputs of a KiB or more are sent in gzip.
        :param http: with certificates, proxies or limits of your own; to close it is yours too.
        """
        self._servers = Servers(url)
        self._server = CallBuilder(token, compress=compress)
        self._hedge_after_s = hedge_after_s
        self._timeout_s = timeout_s
        self._retries = retries
        self._pool: ThreadPoolExecutor | None = None  #: for calls that are hedged
        self._http = http or httpx.Client()
        self._owns_http = http is None

    def predict(
        self,
        model: str,
        input: Any,  # noqa: A002 - the word for it everywhere
        *,
        envelope: bool = True,
        timeout_s: float | None = None,
        request_id: str | None = None,
    ) -> Any:
        """Return the output of *model* for one input: number, string, list, dict, bytes or array.

        :param model: its name, or a path that it answers at, ``/v1/embeddings``.
        :param envelope: false for a path with ``envelope = false``: the body is the output.
        :param timeout_s: sent to the server, which gives up then, too.
        :param request_id: names the request in the server's log; else it gets a random one.
        :raises ServekitError: any of ``servekit_client.errors``.
        """
        answer = self._ask(
            self._server.predict(model, input, request_id), timeout_s, may_hedge=True
        )
        return answer.output if envelope else answer.value

    def raw(
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
        return self._ask(call, timeout_s, may_hedge=True)

    def stream(
        self,
        model: str,
        input: Any,  # noqa: A002
        *,
        raw: bool = False,
        end: str | None = None,
        timeout_s: float | None = None,
        request_id: str | None = None,
    ) -> Generator[Any, None, None]:
        """Yield the outputs of a model that gives one after another.

        Nothing is sent before the first is asked for. Closing the iterator closes the connection.

        :param raw: as in ``stream`` of the path: outputs are text.
        :param end: as there: data of the last event, "" for none.
        :param timeout_s: the longest silence; a stream may last as long as it likes.
        """
        silence_s = self._timeout_s if timeout_s is None else timeout_s
        call = self._server.stream(model, input, request_id, silence_s)
        attempts = Attempts(self._retries, silence_s, call.request_id)
        response, lease = self._send(call, attempts, [])
        with lease, transport_errors(call, lease.url), closing(response):
            events = Events(call.request_id, response.headers, raw=raw, end=end)
            for piece in response.iter_bytes():
                yield from events.outputs(piece)
                if events.is_over:
                    return
            events.require_over()

    def instances(
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
        return outcomes(self._ask(call, timeout_s, may_hedge=True), envelope=envelope)

    def submit(
        self,
        model: str,
        input: Any,  # noqa: A002
        *,
        timeout_s: float | None = None,
        request_id: str | None = None,
    ) -> Job:
        """Submit a job for *model*; the server needs ``jobs`` for it.

        :param timeout_s: of the submission alone: the job has the time that its model has.
        """
        call = self._server.submit(model, input, request_id)
        answer = self._ask(call, timeout_s)
        return Job(partial(self._ask, only=answer.server), self._server, answer)

    def models(self) -> list[str]:
        """Return the names of the models of the server."""
        return names(self._ask(self._server.get()))

    def describe(self, model: str) -> Description:
        """Return what *model* takes and gives."""
        return description(self._ask(self._server.get("openapi.json")), model)

    def ping(self, model: str = "") -> Health:
        """Return whether the server, or one model, can predict just now; never tried again."""
        try:
            self._ask(self._server.get(model, "ping"), retries=0)
        except Unavailable as error:
            return Health(error.detail or error.title)
        return Health()

    def close(self) -> None:
        """Close the connections."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        if self._owns_http:
            self._http.close()

    def __enter__(self) -> Self:
        """Use the client as a context: it is closed at the end."""
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _ask(
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
            return self._hedge(call, attempts, self._hedge_after_s)
        return self._answer(call, attempts, [], only)

    def _hedge(self, call: Call, attempts: Attempts, after_s: float) -> Answer:
        """Ask a second server if the first has not answered *after_s*; take the first answer."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(HEDGED_CALLS, "servekit-client")
        tried: list[str] = []  # by either: the second avoids the server of the first
        futures = [self._pool.submit(self._answer, call, attempts, tried)]
        if not wait(futures, after_s).done:
            futures.append(self._pool.submit(self._answer, call, attempts, tried))
        for future in as_completed(futures):
            if is_final(future.exception()):
                return future.result()
        return futures[0].result()

    def _answer(self, call: Call, attempts: Attempts, tried: list[str], only: str = "") -> Answer:
        response, lease = self._send(call, attempts, tried, only)
        try:
            body = self._read(response, call, attempts, lease)
        except ServekitError as error:
            lease.end(error)
            raise
        finally:
            lease.end()
        return Answer(body, response.headers, lease.url)

    def _send(
        self, call: Call, attempts: Attempts, tried: list[str], only: str = ""
    ) -> tuple[httpx.Response, Lease]:
        """Try until a response is not an error; its body has not been read yet.

        :param tried: the servers that have been asked, which are asked again after all others.
        :param only: the one server to ask.
        """
        while True:
            lease = self._servers.lease(tried, only)
            tried.append(lease.url)
            try:
                return self._open(call, attempts, lease), lease
            except ServekitError as error:
                lease.end(error)
                elsewhere = not only and self._servers.has_other(tried)
                pause_s = attempts.pause_s(error, elsewhere=elsewhere)
            except BaseException:
                lease.abandon()
                raise
            sleep(pause_s)

    def _open(self, call: Call, attempts: Attempts, lease: Lease) -> httpx.Response:
        with transport_errors(call, lease.url):
            request = self._http.build_request(**call.arguments(lease.url, attempts.left_s()))
            response = self._http.send(request, stream=True)
        if response.is_success:
            return response
        body = self._read(response, call, attempts, lease)
        raise problem(response.status_code, response.headers, body, call.request_id)

    def _read(
        self, response: httpx.Response, call: Call, attempts: Attempts, lease: Lease
    ) -> bytes:
        pieces = []
        with transport_errors(call, lease.url), closing(response):
            response.request.extensions["timeout"]["read"] = attempts.left_s()
            for piece in response.iter_bytes():
                attempts.left_s()  # an answer in drops must not outlast the call
                pieces.append(piece)
        return b"".join(pieces)
