# SPDX-License-Identifier: Apache-2.0
"""The gRPC process: it listens, answers and drains."""

from __future__ import annotations

import asyncio
import logging
import signal
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Final

from servekit_oip.grpc.codes import GrpcError, StatusCode
from servekit_oip.grpc.health import HEALTH, HealthService
from servekit_oip.grpc.http import HttpClient
from servekit_oip.grpc.http2 import GrpcConnection
from servekit_oip.grpc.inference import Inference
from servekit_oip.grpc.limits import ServiceLimits
from servekit_oip.grpc.messages import SERVICE
from servekit_oip.grpc.questions import Questions
from servekit_oip.grpc.reflection import REFLECTIONS, Reflection

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncIterator, Awaitable, Callable

    from servekit_oip.grpc.call import GrpcCall

__all__ = ["serve"]

SHARED_MEMORY: Final = tuple(
    f"/{SERVICE}/{kind}SharedMemory".encode() for kind in ("System", "Cuda")
)
NO_SHARED_MEMORY: Final = "shared memory is not supported: send tensors as raw_input_contents"
BACKLOG: Final = 4096
LOOK_S: Final = 0.05  #: how often a shutdown checks whether all calls are answered
RENEW_S: Final = 10.0  #: how often the files of the certificate are looked at

log = logging.getLogger("servekit.grpc")


class Answers:
    """Finds what answers a call, and runs it."""

    def __init__(self, http: HttpClient) -> None:
        """Have the front-ends answer."""
        inference, questions = Inference(http), Questions(http)
        health = HealthService(questions.is_ready)
        reflection = Reflection((SERVICE, HEALTH, *REFLECTIONS))
        self._infer_path = f"/{SERVICE}/ModelInfer".encode()
        self._infer = inference.infer
        unary = {f"/{SERVICE}/{name}": each for name, each in questions.handlers().items()}
        unary[f"/{HEALTH}/Check"] = health.check
        streams = {f"/{name}/ServerReflectionInfo": reflection.answer for name in REFLECTIONS}
        streams |= {
            f"/{SERVICE}/ModelStreamInfer": inference.stream,
            f"/{HEALTH}/Watch": health.watch,
        }
        self._unary: dict[bytes, Callable[[bytes, GrpcCall], Awaitable[bytes]]] = {
            path.encode(): each for path, each in unary.items()
        }
        self._streams: dict[
            bytes, Callable[[AsyncIterator[bytes], GrpcCall], AsyncIterator[bytes]]
        ] = {path.encode(): each for path, each in streams.items()}

    def begin(self, call: GrpcCall) -> None:
        """Refuse *call*, or begin to answer it if it is a stream."""
        call.start_clock()
        path = call.path
        if path in self._streams:
            call.begin_stream()
            self._run(call, self._answer_stream(path, call))
        elif path != self._infer_path and path not in self._unary:
            is_memory = path.startswith(SHARED_MEMORY)
            text = NO_SHARED_MEMORY if is_memory else "there is no such method"
            call.fail(GrpcError(StatusCode.UNIMPLEMENTED, text))

    def answer(self, call: GrpcCall) -> None:
        """Answer *call*, whose messages have arrived."""
        if len(call.received) != 1:
            call.fail(GrpcError(StatusCode.INTERNAL, "expected one message"))
        elif call.path == self._infer_path:
            self._infer(call.received.popleft(), call)
        else:
            self._run(call, self._answer_one(call.received.popleft(), call))

    def _run(self, call: GrpcCall, answer: Awaitable[None]) -> None:
        async def run() -> None:
            try:
                await answer
            except GrpcError as error:
                call.fail(error)
            except Exception:
                log.exception("%s failed", call.path.decode("latin-1"))
                call.fail(GrpcError(StatusCode.INTERNAL, "Internal Error"))

        call.task = asyncio.create_task(run())
        call.cancel = call.task.cancel

    async def _answer_one(self, message: bytes, call: GrpcCall) -> None:
        call.finish(await self._unary[call.path](message, call))

    async def _answer_stream(self, path: bytes, call: GrpcCall) -> None:
        async for message in self._streams[path](call.messages(), call):
            call.send(message)
            await call.has_room()
        call.end()


async def serve(arguments: argparse.Namespace) -> None:
    """Answer until SIGTERM, and then what has begun."""
    loop = asyncio.get_running_loop()
    http = HttpClient(arguments.socket, arguments.keep_alive / 2)
    answers = Answers(http)
    limits = ServiceLimits(
        arguments.max_message,
        arguments.max_header,
        arguments.header_timeout,
        arguments.send_timeout,
        answers.answer,
        answers.begin,
    )
    context = _tls(arguments) if arguments.tls_certificate else None
    host, _, port = arguments.address.rpartition(":")
    server = await loop.create_server(
        lambda: GrpcConnection(limits),
        host.strip("[]") or None,
        int(port),
        ssl=context,
        backlog=BACKLOG,
        reuse_port=arguments.shares_port or None,
    )
    if context is not None:
        renewing = asyncio.create_task(_renew(context, arguments))
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    print(f"gRPC at {host}:{server.sockets[0].getsockname()[1]}", flush=True)
    await stopped.wait()
    server.close()
    if context is not None:
        renewing.cancel()
    await _drain(limits, arguments.grace)
    http.close()


async def _drain(limits: ServiceLimits, grace_s: float) -> None:
    """Answer the calls that have begun, for *grace_s* seconds."""
    for connection in list(limits.connections):
        connection.leave()
    end = asyncio.get_running_loop().time() + grace_s
    while limits.connections and asyncio.get_running_loop().time() < end:
        await asyncio.sleep(LOOK_S)


# ---------------------------------------------------------------- TLS


def _tls(arguments: argparse.Namespace) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2"])
    context.load_cert_chain(arguments.tls_certificate, arguments.tls_key or None)
    if arguments.tls_client_ca:
        context.load_verify_locations(arguments.tls_client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


async def _renew(context: ssl.SSLContext, arguments: argparse.Namespace) -> None:
    """Use new certificates for new connections, when the file has changed."""
    path = Path(arguments.tls_certificate)
    changed_at = path.stat().st_mtime_ns
    while True:
        await asyncio.sleep(RENEW_S)
        try:
            if path.stat().st_mtime_ns != changed_at:
                context.load_cert_chain(path, arguments.tls_key or None)
                changed_at = path.stat().st_mtime_ns
        except (OSError, ssl.SSLError) as error:  # it is being replaced
            log.warning("%s: %s; the previous certificate stays in use", path, error)
