# SPDX-License-Identifier: Apache-2.0
"""The service ``torchserve-stream``: handlers that send parts of a response before they return."""

from __future__ import annotations

from collections.abc import Iterator  # noqa: TC003 - servekit reads the annotations of stream
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from servekit_torchserve.responses import HandlerResponse, encode_element
from servekit_torchserve.service import ArchivedHandler

if TYPE_CHECKING:
    from servekit_torchserve.requests import HandlerRequest

__all__ = ["StreamingTorchServeModel"]

JOIN_S: Final = 5.0  #: a handler whose client has disconnected ends at its next part


class ClientHasGone(BaseException):
    """Raised in a handler that sends a part to a client that has disconnected.

    Handlers that catch every ``Exception`` do not catch it.
    """


class StreamingTorchServeModel(ArchivedHandler):
    """Calls the handler in a thread, for one request at a time, and passes on what it sends."""

    def stream(self, value: Any) -> Iterator[Any]:
        """Yield the parts that the handler sends, and its response."""
        call = StreamedCall(self, self.read(value))
        try:
            yield from call.parts()
        finally:
            call.end()


class StreamedCall:
    """One call of the handler."""

    def __init__(self, service: StreamingTorchServeModel, request: HandlerRequest) -> None:
        """Start it."""
        self._parts: SimpleQueue[bytes | HandlerResponse | BaseException] = SimpleQueue()
        self._has_ended = False
        self._thread = Thread(target=self._run, args=(service, request), daemon=True)
        self._thread.start()

    def _run(self, service: StreamingTorchServeModel, request: HandlerRequest) -> None:
        service.handler_context.send_part = self._send
        try:
            self._parts.put(service.calls.answer([request])[0])
        except BaseException as error:  # noqa: BLE001 - raised where the parts are read
            self._parts.put(error)

    def _send(self, elements: Any) -> None:
        """Take what the handler sends. Runs in its thread."""
        if self._has_ended:
            raise ClientHasGone
        self._parts.put(encode_element(elements[0])[0])

    def parts(self) -> Iterator[bytes | HandlerResponse]:
        """Yield the parts, the last one too."""
        while not isinstance(part := self._parts.get(), HandlerResponse):
            if isinstance(part, BaseException):
                raise part
            yield part
        yield part

    def end(self) -> None:
        """Wait until the handler returns, so that it is never called twice at once."""
        self._has_ended = True
        self._thread.join(JOIN_S)
