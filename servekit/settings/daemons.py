# SPDX-License-Identifier: Apache-2.0
"""The ``[[daemons]]`` of ``servekit.toml``: programs that run beside the server."""

import re
from pathlib import Path
from typing import Any

import msgspec

__all__ = ["DaemonSpec", "read_daemons"]

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class DaemonSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One program, started without a shell; it must stay in the foreground."""

    name: str
    command: list[str]
    env: dict[str, str] = {}
    directory: str = ""  #: working directory; default: that of the file
    required: bool = False  #: the server is not ready without it


def read_daemons(base: Path, entries: Any) -> tuple[DaemonSpec, ...]:
    """Return the daemons that the file in *base* asks for.

    :raises ValueError: one is not valid; the message says which.
    """
    try:
        found = msgspec.convert(entries, list[DaemonSpec])
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
    names = [daemon.name for daemon in found]
    for daemon in found:
        if not NAME.fullmatch(daemon.name) or names.count(daemon.name) > 1:
            raise ValueError(f"{daemon.name!r} is not a valid name, or is used twice")
        if not daemon.command or "\0" in "".join(daemon.command):
            raise ValueError(f"{daemon.name}: the command is empty, or contains a NUL")
    return tuple(
        msgspec.structs.replace(daemon, directory=str((base / daemon.directory).absolute()))
        for daemon in found
    )
