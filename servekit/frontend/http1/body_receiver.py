# SPDX-License-Identifier: Apache-2.0
"""Receives the body of a request that is incomplete: asks for it, times it, finds room for it."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from servekit.frontend.http.placement import end_unread, start_upload
from servekit.frontend.http.request_body import BodyClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.extension.http import HttpRequest
    from servekit.frontend.exchange.host import Host
    from servekit.frontend.http.request_builder import RequestBuilder
    from servekit.frontend.http.socket_reader import SocketReader
    from servekit.frontend.http.socket_writer import SocketWriter

__all__ = ["BodyReceiver"]

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class BodyReceiver:
    """One body of a connection, whose first piece has arrived or is asked for."""

    __slots__ = ("_builder", "_clock", "_host", "_input", "_on_late", "_on_received")

    def __init__(
        self,
        builder: RequestBuilder,
        host: Host,
        sock: SocketReader,
        on_late: Callable[[], None],
        on_received: Callable[[bool], None],
    ) -> None:
        """Receive the body of the request that *builder* holds from *sock*.

        :param on_late: called when others need the memory of the body more.
        :param on_received: called after reading to shared memory, with whether the body is whole.
        """
        self._builder = builder
        self._host = host
        self._input = sock
        self._on_late, self._on_received = on_late, on_received
        self._clock = BodyClock(host.settings, monotonic())

    def ask(self, output: SocketWriter) -> HttpRequest | None:
        """Ask for the body if the client waits to send it.

        :return: the request, if its body is not wanted.
        """
        if not self._builder.wants_continue:
            return None
        request = end_unread(self._builder, self._host)
        if request is None:
            output.send(CONTINUE)
        return request

    def expires(self) -> float:
        """Return the moment at which the client is too slow."""
        return self._clock.expires(monotonic(), self._builder.body_bytes)

    def place(self) -> None:
        """Receive the rest of a large body in shared memory."""
        upload = start_upload(self._builder, self._host)
        if upload is None:
            return
        upload.shed, upload.on_room = self._on_late, self._on_room
        if self._builder.declared_bytes >= 0:
            upload.on_received = self._on_received
            self._input.upload = upload
        if upload.is_waiting:
            self._input.pause()  # the client waits, too
        elif self._input.upload is not None:
            self._input.read()

    def _on_room(self) -> None:
        self._clock = BodyClock(self._host.settings, monotonic())  # the wait was not the client's
        self._builder.let_go()  # shared memory counts it from now on
        self._input.resume()
