# SPDX-License-Identifier: Apache-2.0
"""What the operator asks of clients, checked before anything starts."""

import socket
from pathlib import Path

from servekit.errors import StartupError
from servekit.settings import Settings
from servekit.settings.tokens import MANAGE_VARIABLE, open_files, read_tokens
from servekit.settings.values import split_address
from servekit.supervisor.os.listeners import bind_tcp, bind_unix, url_of
from servekit.supervisor.reporting.journal import Journal, Notice

__all__ = ["MANAGE_SOCKET", "bind_manage", "bind_private", "check_access", "managing"]

MANAGE_SOCKET = "manage.sock"  #: of the run directory


def check_access(settings: Settings, journal: Journal) -> None:
    """Warn of token files that others may read.

    :raises StartupError: a token file or a certificate is not as it should be, or
        management is to be reachable over TCP and no token protects it.
    """
    if settings.tls_certificate or settings.tls_key or settings.tls_client_ca:
        from servekit.settings.tls import server_context  # OpenSSL, which few supervisors need

        server_context(settings)
    tokens = read_tokens(settings)
    if settings.manage and not tokens.manage:
        raise StartupError(f"manage: needs manage_token_file or {MANAGE_VARIABLE}")
    for path in open_files(settings):
        text = f"is open to every user of this machine: chmod 600 {path}"
        journal.notice(Notice("open_file", path, text, "warning"))


def bind_manage(settings: Settings) -> list[socket.socket]:
    """Return the listener of management over TCP, if it is asked for.

    :raises StartupError: the address is not ours, or is taken.
    """
    if not settings.manage:
        return []
    try:
        return [bind_tcp(*split_address(settings.manage))]
    except StartupError as error:
        raise StartupError(f"manage: {error}") from error


def bind_private(run_dir: Path) -> socket.socket:
    """Return the listener of management for our own user: nobody else gets into *run_dir*."""
    path = run_dir / MANAGE_SOCKET
    listener = bind_unix(path)
    path.chmod(0o600)
    return listener


def managing(listeners: list[socket.socket], scheme: str) -> Notice:
    """Return the line that says where management is."""
    addresses = [
        listener.getsockname() if listener.family == socket.AF_UNIX else url_of(listener, scheme)
        for listener in listeners
    ]
    text = f"managed at {' and '.join(addresses)}"
    return Notice("managing", "servekit", text, fields={"addresses": addresses})
