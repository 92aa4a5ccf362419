# SPDX-License-Identifier: Apache-2.0
"""The hooks of this plugin: ``servekit-archive encrypt``, and the server's side of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from servekit import hookimpl
from servekit.extension import Command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

__all__ = ["decrypt_archive", "register_commands"]


@hookimpl
def register_commands() -> Iterable[Command]:
    """Offer ``servekit-archive encrypt``."""
    target = "servekit_encryption.cli:encrypt"
    return [Command("encrypt", "encrypt an archive", target, is_of_archives=True)]


@hookimpl
def decrypt_archive(
    path: Path, target: Path, find_key: Callable[[str], bytes]
) -> Literal[True] | None:
    """Decrypt what ``servekit-archive encrypt`` has written."""
    from servekit_encryption.chunks import decrypt, read_header

    with path.open("rb") as source:
        header = read_header(source)
        if header is None:
            return None
        with target.open("xb") as plain:
            decrypt(source, header, find_key(header.key_id), plain.write)
    return True
