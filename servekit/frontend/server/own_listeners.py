# SPDX-License-Identifier: Apache-2.0
"""Listeners of transports that are spoken nowhere else, and that speak nothing else."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from servekit.errors import PluginError, StartupError, VersionNotSupported
from servekit.extension.transport import TransportOffer
from servekit.frontend.http1.listener import LazyTransport

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from msgspec import Struct

    from servekit.extension.exchange import Exchange
    from servekit.extension.http import HttpRequest
    from servekit.plugins import PluginManager

    Handle = Callable[[Exchange, HttpRequest], None]

__all__ = ["OwnListener", "open_own_listeners", "refusing_http1"]

BACKLOG: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnListener:
    """An open listener. All front-ends accept from it."""

    socket: socket.socket
    transport: LazyTransport
    title: str


def open_own_listeners(
    plugins: PluginManager, settings: Mapping[str, Struct]
) -> Sequence[OwnListener]:
    """Listen where plugins ask for it. Runs in: the parent of the front-ends, which share them.

    :param settings: by plugin.
    :raises PluginError: a hook raised, or what implements a transport cannot be imported.
    :raises StartupError: an address is taken, or not an address.
    """
    found = []
    for plugin, offers in plugins.contributions("register_transports"):
        for offer in offers:
            address = _address_of(offer, settings.get(plugin))
            if address:
                found.append(_open(plugin, offer, address))
    return found


def _address_of(offer: Any, settings: Struct | None) -> str:
    if not isinstance(offer, TransportOffer) or not offer.address_setting:
        return ""  # other things are refused later
    return str(getattr(settings, offer.address_setting, ""))


def _open(plugin: str, offer: TransportOffer, address: str) -> OwnListener:
    try:  # before the fork: the front-ends share its memory, and the first client need not wait
        import_module(offer.target.partition(":")[0])
    except ImportError as error:
        raise PluginError(f"{plugin}: {offer.address_setting}: {error}") from error
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, int(port)), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        text = f"{plugin}: {offer.address_setting} = {address}: cannot listen: {error}"
        raise StartupError(text) from error
    title = offer.title or offer.alpn
    shown = f"[{host}]" if ":" in host else host
    print(f"{title} at {shown}:{listener.getsockname()[1]}", flush=True)
    return OwnListener(socket=listener, transport=LazyTransport(offer), title=title)


def refusing_http1(handle: Handle, title: str) -> Handle:
    """Return *handle* for a listener where *title* is spoken, and HTTP/1.1 is not."""

    def refuse_or_handle(exchange: Exchange, request: HttpRequest) -> None:
        if request.version != "2" and request.refusal is None:
            request.refusal = VersionNotSupported(f"this port speaks {title}, not HTTP/1.1")
            request.keeps_alive = False
        handle(exchange, request)

    return refuse_or_handle
