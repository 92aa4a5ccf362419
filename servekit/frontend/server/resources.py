# SPDX-License-Identifier: Apache-2.0
"""Shared by all front-ends: read by their parent before it forks them, and again on SIGHUP."""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self, TypeVar

from servekit.errors import StartupError
from servekit.frontend.exchange.connection_shares import ConnectionShares
from servekit.frontend.middleware.access_log import open_access_log
from servekit.frontend.middleware.compression import create_codings
from servekit.frontend.server.contributions import check_settings
from servekit.frontend.server.own_listeners import open_own_listeners
from servekit.plugins import create_plugin_manager, leave_out, read_plugin_settings
from servekit.settings.tls import server_context
from servekit.settings.tokens import read_tokens

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping, Sequence

    from msgspec import Struct

    from servekit.frontend.middleware.access_log import AccessLog
    from servekit.frontend.middleware.codings import Coding
    from servekit.frontend.server.own_listeners import OwnListener
    from servekit.plugins import PluginManager
    from servekit.settings import Settings
    from servekit.settings.tokens import Tokens

__all__ = ["Resources"]

Read = TypeVar("Read")

log = logging.getLogger("servekit.frontend")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Plugins, tokens, certificates, sockets and files."""

    plugins: PluginManager
    plugin_settings: Mapping[str, Struct]  #: by plugin
    tokens: Tokens
    tls: ssl.SSLContext | None
    own_tls: ssl.SSLContext | None  #: for ``own_listeners``, which have other protocols
    own_listeners: Sequence[OwnListener]
    codings: Mapping[bytes, Coding]  #: for responses; empty: they are not compressed
    request_codings: Mapping[bytes, Coding]
    access_log: AccessLog | None
    shares: ConnectionShares | None  #: ``None``: there is only one front-end

    @classmethod
    def read(cls, settings: Settings, stdout: int | None) -> Self:
        """Read all that *settings* name.

        :param stdout: descriptor of the server's standard output, if the access log goes there.
        :raises StartupError: a required plugin, a token file, a certificate or a library is missing
            or invalid, or a setting of a plugin is.
        """
        plugins = create_plugin_manager(required=settings.require_plugins)
        check_settings(settings, plugins)
        plugin_settings = read_plugin_settings(settings, plugins)
        leave_out(plugins, plugin_settings)
        tokens, tls = read_tokens(settings), server_context(settings)
        own = open_own_listeners(plugins, plugin_settings)
        return cls(
            plugins=plugins,
            plugin_settings=plugin_settings,
            tokens=tokens,
            tls=tls,
            own_tls=server_context(settings) if own else None,
            own_listeners=own,
            codings=create_codings(settings.compression),
            request_codings=create_codings(settings.request_codings),
            access_log=open_access_log(settings, stdout),
            shares=ConnectionShares() if settings.front_ends > 1 else None,
        )

    def reread(self, settings: Settings, stdout: int | None) -> Self:
        """Return the same with tokens and certificates read again and the access log reopened.

        If a file has become invalid, its previous content stays in use.
        """
        read_tls = partial(server_context, settings)
        own_tls = _reread(read_tls, self.own_tls) if self.own_listeners else None
        again = dataclasses.replace(
            self,
            tokens=_reread(partial(read_tokens, settings), self.tokens),
            tls=_reread(read_tls, self.tls),
            own_tls=own_tls,
            access_log=_reread(partial(open_access_log, settings, stdout), self.access_log),
        )
        if self.access_log is not None and again.access_log is not self.access_log:
            self.access_log.close()
        return again


def _reread(read: Callable[[], Read], old: Read) -> Read:
    """Return what *read* returns now, or *old* if a file has become invalid."""
    try:
        return read()
    except StartupError as error:
        log.error("%s; the previous content stays in use", error)  # noqa: TRY400 - says it all
        return old
