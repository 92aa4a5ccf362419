# SPDX-License-Identifier: Apache-2.0
"""Middleware that copies requests and responses while a recording is asked for."""

from __future__ import annotations

import logging
import os
import random
from functools import partial
from time import monotonic, time
from typing import TYPE_CHECKING, Final

import gevent

from servekit_record.order import Shelf
from servekit_record.recording import RecordedCall, RecordedMessage, line_of, message_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from servekit.extension import Exchange, HttpRequest, HttpResponse, Proceed, Server
    from servekit_record.order import RecordingOrder

__all__ = ["CallRecorder", "is_secret"]

LOOK_S: Final = 0.25  #: how often a front-end looks for an order, and writes calls
CALL_BYTES: Final = 4 << 20  #: larger bodies are not recorded
PENDING_BYTES: Final = 32 << 20  #: of calls that are not written yet; further ones are left out
#: parts of the names of header fields that are never recorded
SECRETS: Final = ("auth", "cookie", "key", "secret", "token", "password", "credential", "signature")

log = logging.getLogger("servekit.frontend")


def is_secret(field: str, redacted: Iterable[str]) -> bool:
    """Return whether the header *field*, in lower case, is left out of recordings."""
    return field in redacted or any(part in field for part in SECRETS)


class CallRecorder:
    """Middleware of one front-end. Without a recording it passes requests on."""

    def __init__(self, server: Server, directory: Path) -> None:
        """Follow the orders in *directory*."""
        self._server = server
        self._shelf = Shelf(directory)
        self._order: RecordingOrder | None = None  #: calls are recorded as it says
        self._pending: list[RecordedCall] = []  #: not written yet
        self._pending_bytes = 0
        self._is_writing = False
        server.call_every(LOOK_S, self._look)
        server.wait_for(lambda: bool(self._pending))

    def __call__(self, exchange: Exchange, request: HttpRequest, proceed: Proceed) -> None:
        """Pass *request* on; copy it first if it is recorded."""
        order = self._order
        if order is None or request.refusal is not None or random.random() >= order.share:  # noqa: S311
            proceed(exchange, request)
            return
        model, body = self._server.find_model(request), request.content
        if len(body) <= CALL_BYTES and order.model in ("", model):
            headers = _headers(request.headers.items(), order.redact)
            message = message_of(headers, bytes(body))
            take = partial(self._take, exchange, request, model, message, time(), monotonic())
            exchange.add_filter(partial(take, order))
        proceed(exchange, request)

    def _take(
        self,
        exchange: Exchange,
        request: HttpRequest,
        model: str,
        asked: RecordedMessage,
        time_s: float,
        began: float,
        order: RecordingOrder,
        response: HttpResponse,
    ) -> HttpResponse:
        """Keep the call that ends with *response*, if a model has answered it."""
        size = len(response.body)
        is_kept = size <= CALL_BYTES and self._pending_bytes <= PENDING_BYTES
        if exchange.model_version and is_kept:
            answered = message_of(_fields(response, order.redact), bytes(response.body))
            self._pending_bytes += size + len(asked.body)
            self._pending.append(
                RecordedCall(
                    time_s=time_s,
                    request_id=request.request_id,
                    method=request.method.decode("latin-1"),
                    target=request.target.decode("latin-1"),
                    model=model,
                    version=exchange.model_version.decode("latin-1"),
                    request=asked,
                    status=response.status,
                    response=answered,
                    is_stream=response.is_streamed,
                    duration_s=monotonic() - began,
                )
            )
        return response

    def _look(self) -> None:
        """Follow the order, and write what there is, in a thread."""
        if not self._is_writing:
            self._is_writing = True
            gevent.spawn(self._work)

    def _work(self) -> None:
        """Runs in a greenlet."""
        calls, self._pending, self._pending_bytes = self._pending, [], 0
        try:
            pool = gevent.get_hub().threadpool
            self._order = pool.apply(self._write_and_read, (self._order, calls))
        except OSError as error:
            log.error("calls cannot be recorded: %s", error)  # noqa: TRY400 - says it all
        finally:
            self._is_writing = False

    def _write_and_read(
        self, order: RecordingOrder | None, calls: list[RecordedCall]
    ) -> RecordingOrder | None:
        """Write *calls* that were recorded for *order*; return the order to follow next."""
        shelf = self._shelf
        if order is not None and calls:
            opened = os.open(shelf.calls_path(order), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(opened, "wb") as file:
                file.writelines(map(line_of, calls))
        shelf.clear_forgotten()
        found = shelf.order()
        if found is None or found.has_ended or shelf.recorded_bytes() >= found.max_bytes:
            return None
        return found


def _headers(fields: Iterable[tuple[bytes, bytes]], redacted: list[str]) -> dict[str, str]:
    decoded = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in fields)
    return {name: value for name, value in decoded if not is_secret(name, redacted)}


def _fields(response: HttpResponse, redacted: list[str]) -> dict[str, str]:
    found = {name.lower(): value for name, value in response.fields}
    if response.media_type:
        found["content-type"] = response.media_type
    if response.timing:
        found["server-timing"] = response.timing.decode("latin-1")
    return {name: value for name, value in found.items() if not is_secret(name, redacted)}
