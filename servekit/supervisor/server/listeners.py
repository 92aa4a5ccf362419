# SPDX-License-Identifier: Apache-2.0
"""The listening sockets of the server, and the checks of who may use them."""

import os
import socket
from collections.abc import MutableMapping
from pathlib import Path

from servekit.errors import StartupError
from servekit.settings import Settings
from servekit.settings.addresses import SYSTEMD, split_address, unix_path
from servekit.settings.archive_keys import read_archive_keys
from servekit.settings.tokens import MANAGE_VARIABLE, open_files, read_tokens
from servekit.supervisor.os.listeners import (
    BACKLOG,
    SocketFile,
    bind_tcp,
    bind_unix,
    is_tcp,
    passed_sockets,
    url_of,
)
from servekit.supervisor.os.run_directory import CLIENT_SOCKET, MANAGE_SOCKET
from servekit.supervisor.reporting.journal import Journal, Notice

__all__ = ["Listeners", "check_access"]


def check_access(settings: Settings, journal: Journal) -> None:
    """Warn about files of tokens and keys that others may read.

    :raises StartupError: a token, key or certificate cannot be used, or management is to be
        reachable over TCP and no token protects it.
    """
    if settings.tls_certificate or settings.tls_key or settings.tls_client_ca:
        from servekit.settings.tls import server_context  # OpenSSL, which few supervisors need

        server_context(settings)
    tokens = read_tokens(settings)
    if settings.manage and not tokens.manage:
        raise StartupError(f"manage: needs manage_token_file or {MANAGE_VARIABLE}")
    read_archive_keys(settings.archive_keys)
    for path in open_files(settings):
        text = f"is open to every user of this machine: chmod 600 {path}"
        journal.notice(Notice("open_file", path, text, "warning"))


class Listeners:
    """Owns the listeners of predictions and of management: they outlive the front-ends."""

    def __init__(
        self, settings: Settings, environment: MutableMapping[str, str] = os.environ
    ) -> None:
        """Bind the addresses of the settings.

        :param environment: says which sockets systemd has passed; those variables are removed.
        :raises StartupError: an address is not ours, or is taken.
        """
        self._scheme = "https" if settings.tls_certificate else "http"
        self._public: list[socket.socket] = []
        self._manage: list[socket.socket] = []
        self._private: list[socket.socket] = []  #: for processes of plugins
        self._files: list[SocketFile] = []
        try:
            self._bind(settings, passed_sockets(environment))
            if settings.manage:
                self._bind_management(settings.manage)
        except StartupError:
            self.close()
            raise

    def _bind(self, settings: Settings, passed: list[socket.socket]) -> None:
        if passed and SYSTEMD not in settings.bind:
            raise StartupError("bind: systemd has passed sockets, which need --bind systemd")
        if not settings.bind:
            self._public.append(bind_tcp(settings.host, settings.port))
        for address in settings.bind:
            if address == SYSTEMD:
                self._public += passed
                if not passed:
                    raise StartupError("bind: systemd has passed no sockets (LISTEN_FDS)")
            elif path := unix_path(address):
                self._files.append(SocketFile(path, int(settings.socket_mode, 8)))
                self._public.append(self._files[-1].socket)
            else:
                self._public.append(bind_tcp(*split_address(address)))

    def _bind_management(self, address: str) -> None:
        try:
            self._manage.append(bind_tcp(*split_address(address)))
        except StartupError as error:
            raise StartupError(f"manage: {error}") from error

    def bind_private(self, run_dir: Path) -> None:
        """Add the sockets for our own user: nobody else can enter *run_dir*.

        :raises OSError: the disk is full, or no descriptor is left.
        """
        for name, listeners in ((MANAGE_SOCKET, self._manage), (CLIENT_SOCKET, self._private)):
            listeners.append(bind_unix(run_dir / name))
            (run_dir / name).chmod(0o600)
        self._private[0].listen(BACKLOG)

    @property
    def url(self) -> str:
        """Where predictions are made: the first TCP address, if there is one."""
        first = next(filter(is_tcp, self._public), self._public[0])
        return url_of(first, self._scheme)

    @property
    def addresses(self) -> list[str]:
        """All addresses where predictions are made."""
        return [url_of(listener, self._scheme) for listener in self._public]

    @property
    def public(self) -> list[int]:
        """The descriptors of the listeners of predictions."""
        return [listener.fileno() for listener in (*self._public, *self._private)]

    @property
    def manage(self) -> list[int]:
        """The descriptors of the listeners of management."""
        return [listener.fileno() for listener in self._manage]

    def managed_at(self) -> Notice:
        """Return the line that says where management is."""
        addresses = [
            each.getsockname() if each.family == socket.AF_UNIX else url_of(each, self._scheme)
            for each in self._manage
        ]
        text = f"managed at {' and '.join(addresses)}"
        return Notice("managing", "servekit", text, fields={"addresses": addresses})

    def close_public(self) -> None:
        """Stop taking connections: the kernel takes them as long as any copy is open."""
        for file in self._files:
            file.remove()
        for listener in (*self._public, *self._private):
            listener.close()

    def close(self) -> None:
        """Close all of them."""
        self.close_public()
        for listener in self._manage:
            listener.close()
