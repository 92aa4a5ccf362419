# SPDX-License-Identifier: Apache-2.0
"""Parsers of the settings that say where to listen."""

import re
from pathlib import Path

from servekit.settings.values import absolute

__all__ = [
    "SYSTEMD",
    "absolute_bind",
    "address",
    "bind_address",
    "file_mode",
    "split_address",
    "unix_path",
]

ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]]+)):(\d{1,5})", re.ASCII)
SYSTEMD = "systemd"  #: an address: the sockets that systemd has opened
UNIX = "unix:"  #: prefix of an address that is a path
MODE = re.compile(r"[0-7]{3}", re.ASCII)


def address(text: str) -> str:
    """Take ``127.0.0.1:8081``, ``[::1]:8081`` or ""."""
    if text:
        split_address(text)
    return text


def bind_address(text: str) -> str:
    """Take ``127.0.0.1:8080``, ``[::1]:8080``, ``unix:/run/servekit.sock`` or ``systemd``."""
    if text == UNIX:
        raise ValueError(f"{text!r}: the path is empty")
    if text != SYSTEMD and not text.startswith(UNIX):
        try:
            split_address(text)
        except ValueError as error:
            raise ValueError(f"{error}, unix:PATH or systemd") from None
    return text


def unix_path(text: str) -> str:
    """Return the path of ``unix:PATH``; "" for another address."""
    return text.removeprefix(UNIX) if text.startswith(UNIX) else ""


def file_mode(text: str) -> str:
    """Take the permissions of a file, such as ``660``."""
    if not MODE.fullmatch(text):
        raise ValueError(f"{text!r} is not three octal digits, such as 660")
    return text


def split_address(text: str) -> tuple[str, int]:
    """Return host and port."""
    found = ADDRESS.fullmatch(text)
    if not found or int(found[3]) > 65535:
        raise ValueError(f"{text!r} is not HOST:PORT")
    return found[1] or found[2], int(found[3])


def absolute_bind(base: Path, text: str) -> str:
    """Do the same for the path in ``unix:PATH``."""
    path = unix_path(text)
    return UNIX + absolute(base, path) if path else text
