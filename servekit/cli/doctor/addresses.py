# SPDX-License-Identifier: Apache-2.0
"""Checks of the addresses that the server is to listen on."""

import errno
import os
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from servekit.cli.doctor.setup import Check, Setup
from servekit.extension.checks import Diagnosis
from servekit.settings.addresses import split_address, unix_path

__all__ = ["ADDRESS_CHECKS"]


def ports(setup: Setup) -> Iterator[Diagnosis]:
    """Try to listen, except on ports that the running server has already."""
    hosts, manage = setup.hosts, setup.settings.manage
    for host, port in [*hosts, *([split_address(manage)] if manage else [])]:
        if port in setup.owned:
            continue
        where = f"port {port} of {host or 'every address'}"
        try:
            found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=1)
            with socket.socket(found[0][0], socket.SOCK_STREAM) as listener:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(found[0][4])
        except OSError as error:
            yield _refused(where, port, error)


def _refused(where: str, port: int, error: OSError) -> Diagnosis:
    if error.errno == errno.EADDRINUSE:
        text, fix = f"{where} is taken", f"ss -ltnp 'sport = :{port}' shows by whom"
    elif error.errno in (errno.EACCES, errno.EPERM):
        text = f"{where} is not for this user"
        fix = "use a port from 1024 on, or AmbientCapabilities=CAP_NET_BIND_SERVICE in the unit"
    else:
        text, fix = f"{where}: {error.strerror or error}", "ip address shows the machine's own"
    return Diagnosis(severity="error", text=text, meaning="The server does not start.", fix=fix)


def unix_sockets(setup: Setup) -> Iterator[Diagnosis]:
    """Look whether the sockets ``unix:PATH`` can be made."""
    for text in filter(None, map(unix_path, setup.settings.bind)):
        path = Path(text)
        meaning = "The server does not start."
        if not os.access(path.parent, os.W_OK | os.X_OK):
            yield Diagnosis(
                severity="error",
                text=f"{path}: this user cannot make files in {path.parent}",
                meaning=meaning,
                fix=f"install -d -o $USER {path.parent}",
            )
        elif str(path) not in setup.owned and _is_answered(path):
            yield Diagnosis(
                severity="error",
                text=f"{path}: another process listens there",
                meaning=meaning,
                fix=f"ss -lxp | grep {path} shows which",
            )


def _is_answered(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(1.0)
        try:
            client.connect(os.fspath(path))
        except OSError:
            return False
    return True


ADDRESS_CHECKS: Final[Iterable[Check]] = (
    Check("ports", "whether the ports are free", ports),
    Check("unix sockets", "whether sockets unix:PATH can be made", unix_sockets),
)
