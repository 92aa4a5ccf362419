# SPDX-License-Identifier: Apache-2.0
"""Middleware that copies requests and responses while a recording is asked for."""

from __future__ import annotations

import logging
import os
import random
from typing import TYPE_CHECKING, Final

import gevent
from gevent.monkey import get_original

from servekit_record.call_copy import CALL_BYTES, CallCopy, CopyMemory
from servekit_record.order import FOLLOWED, OVER, Shelf
from servekit_record.recording import line_of

if TYPE_CHECKING:
    from pathlib import Path

    from servekit.extension import Exchange, HttpRequest, Proceed, Server
    from servekit_record.order import RecordingOrder

__all__ = ["LOOK_S", "CallRecorder"]

LOOK_S: Final = 0.25  #: how often a front-end looks for an order, and writes calls
PENDING_BYTES: Final = 32 << 20  #: of calls that are not written yet; further ones are left out

thread_sleep = get_original("time", "sleep")  #: blocks the thread, not a greenlet

log = logging.getLogger("servekit.frontend")


class CallRecorder:
    """Middleware of one front-end. Without a recording it passes requests on."""

    def __init__(self, server: Server, directory: Path) -> None:
        """Follow the orders in *directory*."""
        self._server = server
        self._shelf = Shelf(directory)
        self._order: RecordingOrder | None = None  #: calls are recorded as it says
        self._id = ""  #: of the recording in the directory, which may be over
        self._is_over = False  #: that recording is
        self._broken = ""  #: the id of a recording whose calls cannot be written
        self._memory = CopyMemory(0)
        self._ended: list[CallCopy] = []  #: not written yet
        self.is_writing = False  #: a thread writes calls, or looks for an order
        server.call_every(LOOK_S, self._look)
        server.wait_for(lambda: bool(self._ended))

    def __call__(self, exchange: Exchange, request: HttpRequest, proceed: Proceed) -> None:
        """Pass *request* on; copy it first if it is recorded."""
        order = self._order
        if order is not None and request.refusal is None and random.random() < order.share:  # noqa: S311
            self._copy(exchange, request, order)
        proceed(exchange, request)

    def _copy(self, exchange: Exchange, request: HttpRequest, order: RecordingOrder) -> None:
        native = self._server.find_model(request)
        # clients of protocols may name the model in the body: the response tells which one it is
        is_asked = not native or order.model in ("", native)
        is_small = len(request.content) <= CALL_BYTES
        if is_asked and is_small and self._memory.take(CallCopy.size_of(request)):
            copy = CallCopy(order, self._memory, request, self._ended.append)
            copy.is_native = bool(native)
            copy.follow(exchange, self._server.name_model)

    def _look(self) -> None:
        """Follow the order, and write what there is, in a thread."""
        if not self.is_writing:
            self.is_writing = True
            gevent.spawn(self._work)

    def _work(self) -> None:
        """Runs in a greenlet."""
        copies = self._ended[:]
        del self._ended[: len(copies)]
        try:
            pool = gevent.get_hub().threadpool
            state = OVER if self._is_over else FOLLOWED
            order, is_over = pool.apply(self._write_and_read, (copies, self._id, state))
            self._follow(order, is_over=is_over)
        except OSError as error:
            self._broken = self._id
            self._order = None
            log.error("calls cannot be recorded: %s", error)  # noqa: TRY400 - says it all
        finally:
            for copy in copies:
                copy.release()
            self.is_writing = False

    def _follow(self, order: RecordingOrder | None, *, is_over: bool) -> None:
        """Record as *order* says, unless the recording *is_over*."""
        id_ = order.id if order is not None else ""
        if id_ != self._id:
            self._memory.close()
            self._id, self._memory = id_, CopyMemory(PENDING_BYTES)
        self._is_over = is_over
        self._order = None if is_over or id_ == self._broken else order

    def _write_and_read(
        self, copies: list[CallCopy], followed: str, state: str
    ) -> tuple[RecordingOrder | None, bool]:
        """Write those of *copies* that belong to the present order; return it, and if it is over.

        What began before a recording was over may end a little later, and is recorded, too.

        :param followed: the id of the order that was followed when *copies* had ended.
        :param state: what this front-end had come to then.
        """
        shelf = self._shelf
        shelf.clear_forgotten()
        order = shelf.order()
        if order is None:
            return None, True
        if found := [copy for copy in copies if copy.order.id == order.id]:
            opened = os.open(shelf.calls_path(order), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(opened, "wb") as file:
                for copy in found:
                    file.write(line_of(copy.recorded()))
                    thread_sleep(0)  # otherwise the event loop waits 5 ms for its turn
        if order.id == followed:
            shelf.mark(order, state)
        return order, order.has_ended or shelf.recorded_bytes() >= order.max_bytes
