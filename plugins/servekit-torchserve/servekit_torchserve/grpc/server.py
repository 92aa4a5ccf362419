# SPDX-License-Identifier: Apache-2.0
"""The process that speaks gRPC: it listens, answers and drains."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import grpc

from servekit_torchserve.grpc.calls import ManagementCalls
from servekit_torchserve.grpc.limits import MessageLimits
from servekit_torchserve.grpc.messages import INFERENCE, MANAGEMENT, methods_of
from servekit_torchserve.grpc.predictions import PredictionCalls
from servekit_torchserve.management.access import ManagementAccess
from servekit_torchserve.management.operations import ManagementOperations
from servekit_torchserve.management.upstream import MANAGE_SOCKET, Upstream

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping

__all__ = ["serve"]

THREADS: Final = 128  #: calls that are answered at the same time, at each address
CONVERSATION: Final = "StreamPredictions2"  #: takes a stream
STREAMS: Final = ("StreamPredictions", CONVERSATION)  #: answer with a stream


def serve(arguments: argparse.Namespace) -> None:
    """Answer until SIGTERM, and then what has begun.

    :raises OSError: an address is in use.
    """
    servers = []
    if arguments.inference:
        calls = PredictionCalls(arguments.clients)
        methods: dict[str, Callable[..., Any]] = {
            "Ping": calls.ping,
            "Predictions": calls.predict,
            "StreamPredictions": calls.stream,
            "StreamPredictions2": calls.converse,
        }
        servers.append(_listen(arguments.inference, INFERENCE, methods, arguments))
    if arguments.management:
        manage = _management(arguments)
        servers.append(_listen(arguments.management, MANAGEMENT, manage, arguments))
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    stopped.wait()
    for ended in [each.stop(arguments.grace) for each in servers]:
        ended.wait()


def _management(arguments: argparse.Namespace) -> dict[str, Callable[..., Any]]:
    operations = ManagementOperations(
        Upstream(arguments.run_directory / MANAGE_SOCKET),
        arguments.model_store,
        is_model_api_on=arguments.model_api,
    )
    access = ManagementAccess(Upstream(arguments.clients), needs_token=not arguments.no_token)
    calls = ManagementCalls(operations, access)
    return {
        "DescribeModel": calls.describe,
        "ListModels": calls.list_models,
        "RegisterModel": calls.register,
        "ScaleWorker": calls.scale,
        "SetDefault": calls.set_default,
        "UnregisterModel": calls.unregister,
    }


def _listen(
    address: str,
    service: str,
    methods: Mapping[str, Callable[..., Any]],
    arguments: argparse.Namespace,
) -> grpc.Server:
    sizes = ("grpc.max_receive_message_length", "grpc.max_send_message_length")
    options = [(name, arguments.max_message) for name in sizes]
    options.append(("grpc.so_reuseport", 0))
    options.append(("grpc.server_handshake_timeout_ms", int(arguments.header_timeout * 1000)))
    server = grpc.server(ThreadPoolExecutor(THREADS), options=options)
    limits = MessageLimits(max(arguments.keep_alive, arguments.body_timeout))
    handlers = {
        name: _handler(method, *methods_of(service)[name], name, limits)
        for name, method in methods.items()
    }
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, handlers)])
    try:
        port = _bind(server, address, arguments)
    except RuntimeError as error:
        raise OSError(str(error)) from error
    server.start()
    print(f"gRPC {service.rpartition('.')[2]} at {address.rpartition(':')[0]}:{port}", flush=True)
    return server


def _bind(server: grpc.Server, address: str, arguments: argparse.Namespace) -> int:
    if not arguments.tls_certificate:
        return int(server.add_insecure_port(address))
    key = Path(arguments.tls_key or arguments.tls_certificate).read_bytes()
    pair = (key, Path(arguments.tls_certificate).read_bytes())
    return int(server.add_secure_port(address, grpc.ssl_server_credentials([pair])))


def _handler(
    method: Callable[..., Any], request: Any, response: Any, name: str, limits: MessageLimits
) -> Any:
    """Return what answers the calls of *name*.

    All take a stream, since gRPC waits without a limit for the message of a call that has one.
    """
    makers = {
        False: grpc.stream_unary_rpc_method_handler,
        True: grpc.stream_stream_rpc_method_handler,
    }
    taker = limits.messages(method) if name == CONVERSATION else limits.one_message(method)
    return makers[name in STREAMS](
        taker,
        request_deserializer=request.FromString,
        response_serializer=response.SerializeToString,
    )
