# SPDX-License-Identifier: Apache-2.0
"""ModelInfer and ModelStreamInfer. Runs in: front-ends.

Of a message, only the name of the model is read here: its worker reads and writes the rest.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import gevent
from gevent.queue import Queue

from servekit.extension import HttpRequest
from servekit_oip.grpc.codes import GrpcError, StatusCode
from servekit_oip.grpc.exchange import InferExchange, PiecesExchange, request_of, set_timeout
from servekit_oip.grpc.protocol import INFER, STREAM
from servekit_oip.grpc.wire import error_piece, id_of, model_of, names_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servekit_oip.grpc.call import GrpcCall
    from servekit_oip.grpc.incoming import CallMessage

__all__ = ["find_route", "infer", "stream"]

MAX_BEGUN: Final = 64  #: requests of one stream that are answered at the same time


def target_of(path: str, message: bytes) -> bytes:
    """Return the target of the inference that *message* asks for; it may be its beginning.

    :raises ValueError: it names no model.
    """
    names = names_of(message)
    return _target_of(path, message) if names is message else _known_target(path, names)


def _target_of(path: str, names: bytes) -> bytes:
    model, version = model_of(names)
    if not model:
        raise ValueError("model_name: missing")
    return (path + "/".join(quote(name, safe="") for name in (model, version) if name)).encode()


_known_target: Final = lru_cache(maxsize=1024)(_target_of)


def request_for(path: str, body: HttpRequest | bytes, call: GrpcCall) -> HttpRequest:
    """Return the request for an inference.

    :raises ValueError: the message names no model.
    """
    if isinstance(body, HttpRequest):
        set_timeout(body.headers, call)
        return body
    return request_of(call, target_of(path, body), body)


def find_route(begun: bytes, call: GrpcCall, path: str) -> HttpRequest | None:
    """Return the request of a large message that begins so, with its route.

    :return: ``None`` if that is not known.
    """
    try:
        target = target_of(path, begun)
    except ValueError:  # its beginning is not enough
        return None
    request = request_of(call, target, b"")
    request.route = call.streams.host.find(b"POST", request.target, request.headers)
    return None if request.route is None else request


def infer(message: CallMessage, call: GrpcCall) -> None:
    """Answer ModelInfer."""
    try:
        request = request_for(INFER, message.body, call)
    except ValueError as error:
        call.fail(GrpcError(StatusCode.INVALID_ARGUMENT, str(error)))
        return
    exchange = InferExchange(call)
    call.cancel = exchange.close
    exchange.begin(request)


def stream(call: GrpcCall) -> Iterator[bytes]:
    """Answer ModelStreamInfer: several requests at a time, in their order. In a greenlet."""
    answers: Queue[PiecesExchange | None] = Queue(MAX_BEGUN)
    begun: set[PiecesExchange] = set()
    call.is_idle = lambda: not (begun or call.waiting)
    reader = gevent.spawn(begin_each, call, answers, begun)
    try:
        while (answer := answers.get()) is not None:
            while (piece := answer.next()) is not None:
                yield piece
            begun.discard(answer)
    finally:
        reader.kill(block=False)
        for answer in begun:
            answer.close()


def begin_each(
    call: GrpcCall, answers: Queue[PiecesExchange | None], begun: set[PiecesExchange]
) -> None:
    """Begin a request for each message of *call*. In a greenlet."""
    try:
        for message in call.messages():
            answer = PiecesExchange(call, id_of(message.content))
            begun.add(answer)
            try:
                answer.begin(request_for(STREAM, message.body, call))
            except ValueError as error:
                answer.put(error_piece(str(error)))
                answer.end()
            answers.put(answer)
    finally:
        answers.put(None)
