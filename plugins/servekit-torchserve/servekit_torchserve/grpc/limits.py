# SPDX-License-Identifier: Apache-2.0
"""Limits for clients of gRPC that send nothing: each of their calls would keep a thread."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

import grpc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["CONVERSATIONS", "MessageLimits"]

CONVERSATIONS: Final = 64  #: streams of requests that are open at the same time


class MessageLimits:
    """How long a message of a call is waited for; after that the call is cancelled."""

    def __init__(self, seconds: float) -> None:
        """Wait *seconds* for each message; large ones take a while to arrive."""
        self._seconds = seconds
        self._conversations = threading.BoundedSemaphore(CONVERSATIONS)

    def one_message(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return *method*, which takes a message, as one that takes a stream."""

        def take(requests: Iterator[Any], context: grpc.ServicerContext) -> Any:
            for request in self._received(requests, context):
                return method(request, context)
            return context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the call has no message")

        return take

    def messages(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return *method*, which takes a stream and answers with one, for limited numbers."""

        def take(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
            if not self._conversations.acquire(blocking=False):
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many streams are open")
            try:
                yield from method(self._received(requests, context), context)
            finally:
                self._conversations.release()

        return take

    def _received(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        """Yield what *requests* yields within the limits."""
        while True:
            timer = threading.Timer(self._seconds, context.cancel)
            timer.daemon = True
            timer.start()
            try:
                request = next(requests)
            except StopIteration:
                return
            finally:
                timer.cancel()
            yield request
