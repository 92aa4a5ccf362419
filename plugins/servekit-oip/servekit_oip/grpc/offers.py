# SPDX-License-Identifier: Apache-2.0
"""The processes of a server with an address for gRPC."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from servekit.errors import PluginError
from servekit.extension import ProcessOffer

if TYPE_CHECKING:
    from servekit.extension import Server
    from servekit_oip.grpc.settings import OipSettings

__all__ = ["processes"]

NEEDED: Final = ("google.protobuf", "hpack")


def processes(server: Server, settings: OipSettings) -> list[ProcessOffer]:
    """Return the processes that speak gRPC.

    :raises PluginError: a library is missing.
    """
    if not settings.grpc:
        return []
    if missing := [name for name in NEEDED if not _is_there(name)]:
        raise PluginError(f"grpc: {missing[0]} is missing: pip install 'servekit-oip[grpc]'")
    common = server.settings
    arguments = [
        *("--address", settings.grpc),
        *("--socket", str(server.client_socket)),
        *("--grace", str(common.grace)),
        *("--keep-alive", str(common.keep_alive)),
        *("--max-message", str(common.max_body)),
        *("--max-header", str(common.max_header)),
        *("--header-timeout", str(common.header_timeout)),
        *("--send-timeout", str(common.send_timeout)),
    ]
    for name in ("tls_certificate", "tls_key", "tls_client_ca"):
        if value := getattr(common, name):
            arguments += ["--" + name.replace("_", "-"), value]
    if settings.grpc_processes == 1:
        return [ProcessOffer(name="grpc", module="servekit_oip.grpc", arguments=arguments)]
    return [
        ProcessOffer(
            name=f"grpc-{number}",
            module="servekit_oip.grpc",
            arguments=[*arguments, "--shares-port"],
        )
        for number in range(settings.grpc_processes)
    ]


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package above it is missing
        return False
