# SPDX-License-Identifier: Apache-2.0
"""The processes of a server that has addresses of TorchServe's besides that of inference."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from servekit.errors import PluginError
from servekit.extension import ProcessOffer
from servekit_torchserve.process_options import LIMITS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servekit.extension import Server
    from servekit_torchserve.settings import TorchServeSettings

__all__ = ["GRPC_PACKAGES", "processes"]

GRPC_PACKAGES: Final = ("grpc", "google.protobuf")


def processes(server: Server, own: TorchServeSettings) -> Iterator[ProcessOffer]:
    """Yield the process for management and metrics, and that for gRPC, if they have addresses.

    :raises PluginError: a library is missing.
    """
    common = _arguments(server, own)
    if own.management or own.metrics:
        arguments = [*("--management", own.management), *("--metrics", own.metrics), *common]
        module = "servekit_torchserve.management"
        yield ProcessOffer(name="management", module=module, arguments=arguments)
    if own.grpc_inference or own.grpc_management:
        _require_grpc()
        arguments = ["--inference", own.grpc_inference, "--management", own.grpc_management]
        arguments += ["--max-message", str(server.settings.max_body), *common]
        yield ProcessOffer(name="grpc", module="servekit_torchserve.grpc", arguments=arguments)


def _arguments(server: Server, own: TorchServeSettings) -> list[str]:
    """Return the arguments of both processes."""
    settings = server.settings
    found = [
        *("--run-directory", str(server.run_directory)),
        *("--clients", str(server.client_socket)),
        *("--grace", str(settings.grace)),
    ]
    for name in LIMITS:
        found += [f"--{name}", str(getattr(settings, name.replace("-", "_")))]
    if own.model_store:
        found += ["--model-store", own.model_store]
    if own.model_api:
        found.append("--model-api")
    if not own.tokens:
        found.append("--no-token")
    if settings.tls_certificate:
        found += ["--tls-certificate", settings.tls_certificate, "--tls-key", settings.tls_key]
    return found


def _require_grpc() -> None:
    try:
        missing = [name for name in GRPC_PACKAGES if find_spec(name) is None]
    except ModuleNotFoundError as error:  # the package above it is missing
        missing = [str(error.name)]
    if missing:
        text = f"grpc: {missing[0]} is missing: pip install 'servekit-torchserve[grpc]'"
        raise PluginError(text)
