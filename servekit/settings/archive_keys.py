# SPDX-License-Identifier: Apache-2.0
"""The keys of encrypted archives, from files, variables and descriptors. They are secrets."""

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from servekit.errors import StartupError
from servekit.settings.values import absolute

__all__ = ["archive_key_source", "key_files", "key_id", "parse_key", "read_archive_keys"]

KEY: Final = re.compile(rb"[0-9A-Fa-f]{64}")
DESCRIPTOR: Final = re.compile(r"fd:(\d{1,6})", re.ASCII)
VARIABLE: Final = "env:"
MOST_BYTES: Final = 4096  #: read of a source


def archive_key_source(base: Path, text: str) -> str:
    """Return ``fd:3`` or ``env:NAME`` unchanged, and the path of a file absolute."""
    if text.startswith(VARIABLE) or DESCRIPTOR.fullmatch(text):
        return text
    return absolute(base, text)


def key_files(sources: Iterable[str]) -> list[str]:
    """Return those of *sources* that are files."""
    return [each for each in sources if Path(each).is_absolute()]


def read_archive_keys(
    sources: Iterable[str], environment: Mapping[str, str] = os.environ
) -> list[bytes]:
    """Return the keys, 32 bytes each. Files are read each time, descriptors once.

    :raises StartupError: a source cannot be read, or is not a key.
    """
    return [_read(source, environment) for source in sources]


def key_id(key: bytes) -> str:
    """Return the name of *key* that encrypted archives carry: 16 hexadecimal digits."""
    return hashlib.sha256(b"servekit archive key\0" + key).hexdigest()[:16]


def parse_key(content: bytes, where: str) -> bytes:
    """Return the key that *content* has as 64 hexadecimal digits, with white space around them.

    :raises StartupError: it is not one; the content is not shown.
    """
    if not KEY.fullmatch(content.strip()):
        raise StartupError(f"{where}: is not a key of 64 hexadecimal digits")
    return bytes.fromhex(content.strip().decode())


def _read(source: str, environment: Mapping[str, str]) -> bytes:
    where = f"archive_keys: {source}"
    if source.startswith(VARIABLE):
        text = environment.get(source.removeprefix(VARIABLE), "")
        return parse_key(text.encode(errors="surrogateescape"), where)
    try:
        if found := DESCRIPTOR.fullmatch(source):
            return parse_key(_from_descriptor(int(found[1])), where)
        with Path(source).open("rb") as file:
            return parse_key(file.read(MOST_BYTES), where)
    except OSError as error:
        raise StartupError(f"{where}: {error.strerror}") from error


@cache
def _from_descriptor(number: int) -> bytes:
    """Read it to its end and close it: a pipe cannot be read again, and nobody else may."""
    with open(number, "rb") as file:
        return file.read(MOST_BYTES)
