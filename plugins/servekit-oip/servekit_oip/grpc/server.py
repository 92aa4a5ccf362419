# SPDX-License-Identifier: Apache-2.0
"""The gRPC process: it listens, answers and drains."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import grpc
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

from servekit_oip.grpc.health import HEALTH, health_handlers
from servekit_oip.grpc.http import HttpClient
from servekit_oip.grpc.inference import Inference
from servekit_oip.grpc.messages import SERVICE, pool
from servekit_oip.grpc.questions import Questions

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

__all__ = ["serve"]

SHARED_MEMORY: Final = tuple(f"/{SERVICE}/{kind}SharedMemory" for kind in ("System", "Cuda"))
MARGIN: Final = 65_536  #: bytes of a message besides the tensors, above the limit of a body


class Calls(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Finds the handler of a call."""

    def __init__(self, services: Mapping[str, Mapping[str, grpc.RpcMethodHandler]]) -> None:
        """Answer the calls of *services*: by service and method."""
        self._handlers = {
            f"/{service}/{method}": handler
            for service, handlers in services.items()
            for method, handler in handlers.items()
        }
        self._refusal = grpc.unary_unary_rpc_method_handler(_refuse_shared_memory)

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """Return the handler of a call; ``None``: there is no such method."""
        if details.method.startswith(SHARED_MEMORY):
            return self._refusal
        return self._handlers.get(details.method)


async def _refuse_shared_memory(_message: bytes, context: Any) -> None:
    text = "shared memory is not supported: send tensors as raw_input_contents"
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, text)


async def serve(arguments: argparse.Namespace) -> None:
    """Answer until SIGTERM, and then what has begun."""
    http = HttpClient(arguments.socket, arguments.keep_alive / 2)
    inference, questions = Inference(http), Questions(http)
    server = grpc.aio.server(options=_options(arguments))
    handlers = {
        "ModelInfer": grpc.unary_unary_rpc_method_handler(inference.infer),
        "ModelStreamInfer": grpc.stream_stream_rpc_method_handler(inference.stream),
        **questions.handlers(),
    }
    health = health_handlers(questions.is_ready)
    server.add_generic_rpc_handlers((Calls({SERVICE: handlers, HEALTH: health}),))
    _reflect(server)
    port = _listen(server, arguments)
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await server.start()
    host = arguments.address.rpartition(":")[0]
    print(f"gRPC at {host}:{port}", flush=True)
    await stopped.wait()
    await server.stop(arguments.grace)
    http.close()


def _options(arguments: argparse.Namespace) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", arguments.max_message + MARGIN),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_metadata_size", arguments.max_header),
        ("grpc.so_reuseport", int(arguments.shares_port)),
    ]


def _reflect(server: grpc.aio.Server) -> None:
    """Let clients ask which services and messages there are."""
    for module in (health_pb2, reflection_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    names = (SERVICE, HEALTH, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server, pool=pool)


# ---------------------------------------------------------------- TLS


def _listen(server: grpc.aio.Server, arguments: argparse.Namespace) -> int:
    """Bind the address and return the port.

    :raises RuntimeError: it is taken, or not ours.
    """
    if not arguments.tls_certificate:
        return int(server.add_insecure_port(arguments.address))
    certificates = Certificates(arguments)
    credentials = grpc.dynamic_ssl_server_credentials(
        certificates.read(), certificates.renewed, bool(arguments.tls_client_ca)
    )
    return int(server.add_secure_port(arguments.address, credentials))


class Certificates:
    """The certificate of the server; the files are read again when they have changed."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        names = (arguments.tls_key, arguments.tls_certificate, arguments.tls_client_ca)
        self._paths = [Path(name) for name in names if name]
        self._changed_at: list[int] = []

    def read(self) -> grpc.ServerCertificateConfiguration:
        """Return what the files hold."""
        self._changed_at = self._times()
        key, certificate, *others = [path.read_bytes() for path in self._paths]
        return grpc.ssl_server_certificate_configuration(
            [(key, certificate)], root_certificates=others[0] if others else None
        )

    def renewed(self) -> grpc.ServerCertificateConfiguration | None:
        """Return what the files hold, if they have changed. Called for each connection."""
        try:
            return self.read() if self._times() != self._changed_at else None
        except OSError:  # they are being replaced
            return None

    def _times(self) -> list[int]:
        return [path.stat().st_mtime_ns for path in self._paths]
