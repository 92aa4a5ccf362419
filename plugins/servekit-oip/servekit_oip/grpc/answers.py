# SPDX-License-Identifier: Apache-2.0
"""Finds what answers a call, and runs it. Runs in: front-ends."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

import gevent
from google.protobuf.message import DecodeError

from servekit_oip.grpc import health, inference, questions
from servekit_oip.grpc.codes import GrpcError, StatusCode
from servekit_oip.grpc.health import HEALTH
from servekit_oip.grpc.messages import SERVICE
from servekit_oip.grpc.protocol import INFER, STREAM
from servekit_oip.grpc.reflection import REFLECTIONS, Reflection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from servekit_oip.grpc.call import GrpcCall

__all__ = ["ANSWERS"]

INFER_PATH: Final = INFER.rstrip("/").encode()
STREAM_PATH: Final = STREAM.rstrip("/").encode()
FIND_INFER: Final = partial(inference.find_route, path=INFER)
FIND_STREAM: Final = partial(inference.find_route, path=STREAM)
SHARED_MEMORY: Final = tuple(
    f"/{SERVICE}/{kind}SharedMemory".encode() for kind in ("System", "Cuda")
)
NO_SHARED_MEMORY: Final = "shared memory is not supported: send tensors as raw_input_contents"

log = logging.getLogger("servekit.grpc")


class Answers:
    """The handlers of all calls."""

    def __init__(self) -> None:
        """Find them."""
        reflection = Reflection((SERVICE, HEALTH, *REFLECTIONS))
        unary = {f"/{SERVICE}/{name}": each for name, each in questions.handlers().items()}
        unary[f"/{HEALTH}/Check"] = health.check
        streams = {f"/{name}/ServerReflectionInfo": reflection.answer for name in REFLECTIONS}
        streams[f"/{HEALTH}/Watch"] = health.watch
        self._unary: dict[bytes, Callable[[bytes, GrpcCall], bytes]] = {
            path.encode(): each for path, each in unary.items()
        }
        self._streams: dict[bytes, Callable[[GrpcCall], Iterator[bytes]]] = {
            path.encode(): each for path, each in streams.items()
        }
        self._streams[STREAM_PATH] = inference.stream

    def begin(self, call: GrpcCall) -> None:
        """Refuse *call*, or begin to answer it if it is a stream."""
        path = call.fields.path
        if path == INFER_PATH:
            call.find_route = FIND_INFER
        elif path in self._streams:
            if path == STREAM_PATH:
                call.find_route = FIND_STREAM
            call.begin_stream()
            self._run(call, self._answer_stream, self._streams[path])
        elif path not in self._unary:
            is_memory = path.startswith(SHARED_MEMORY)
            text = NO_SHARED_MEMORY if is_memory else "there is no such method"
            call.fail(GrpcError(StatusCode.UNIMPLEMENTED, text))

    def answer(self, call: GrpcCall) -> None:
        """Answer *call*, whose message has arrived."""
        message, call.message = call.message, None
        if message is None:
            call.fail(GrpcError(StatusCode.INTERNAL, "expected one message"))
            return
        if call.fields.path == INFER_PATH:
            inference.infer(message, call)
        else:
            assert isinstance(message.body, bytes)  # only those of inferences lie elsewhere
            self._run(call, self._answer_one, self._unary[call.fields.path], message.body)
        message.release(call.streams)  # from here on the queue counts it

    def _run(self, call: GrpcCall, answer: Callable[..., None], *arguments: object) -> None:
        """Answer *call* in a greenlet."""
        greenlet = gevent.spawn(_answer_safely, call, answer, *arguments)
        call.cancel = lambda: greenlet.kill(block=False)

    def _answer_one(
        self, call: GrpcCall, handler: Callable[[bytes, GrpcCall], bytes], content: bytes
    ) -> None:
        call.finish(handler(content, call))

    def _answer_stream(
        self, call: GrpcCall, handler: Callable[[GrpcCall], Iterator[bytes]]
    ) -> None:
        for message in handler(call):
            call.send(message)
            call.wait_for_room()
        call.end()


def _answer_safely(call: GrpcCall, answer: Callable[..., None], *arguments: object) -> None:
    try:
        answer(call, *arguments)
    except GrpcError as error:
        call.fail(error)
    except DecodeError:
        call.fail(GrpcError(StatusCode.INVALID_ARGUMENT, "not such a message"))
    except Exception:
        log.exception("%s failed", call.fields.path.decode("latin-1"))
        call.fail(GrpcError(StatusCode.INTERNAL, "Internal Error"))


ANSWERS: Final = Answers()
