# SPDX-License-Identifier: Apache-2.0
"""Bearer tokens, from files and variables. They are secrets: never flags, kept as digests."""

import hashlib
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from servekit.errors import StartupError
from servekit.settings.archive_keys import key_files
from servekit.settings.fields import PREFIX, Settings

__all__ = ["MANAGE_VARIABLE", "PREDICT_VARIABLE", "TOKEN", "Tokens", "open_files", "read_tokens"]

PREDICT_VARIABLE = f"{PREFIX}PREDICT_TOKEN"
MANAGE_VARIABLE = f"{PREFIX}MANAGE_TOKEN"
TOKEN = re.compile(rb"[A-Za-z0-9._~+/-]+=*")  # token68 of RFC 9110 11.2


@dataclass(frozen=True, slots=True)
class Tokens:
    """The SHA-256 digests of the tokens of each area; an area without tokens is open."""

    predict: tuple[bytes, ...] = ()
    manage: tuple[bytes, ...] = ()


def read_tokens(settings: Settings, environment: Mapping[str, str] = os.environ) -> Tokens:
    """Return the tokens of the files that *settings* name, and of the two variables.

    :raises StartupError: a file cannot be read, has no token, or a token is malformed.
    """
    return Tokens(
        predict=_area(
            "predict_token_file", settings.predict_token_file, PREDICT_VARIABLE, environment
        ),
        manage=_area("manage_token_file", settings.manage_token_file, MANAGE_VARIABLE, environment),
    )


def open_files(settings: Settings) -> list[str]:
    """Return the files of tokens and keys that other users may read or write."""
    tokens = filter(None, (settings.predict_token_file, settings.manage_token_file))
    paths = [*tokens, *key_files(settings.archive_keys)]
    return [path for path in paths if _is_open(Path(path))]


def _is_open(path: Path) -> bool:
    return bool(path.stat().st_mode & (stat.S_IROTH | stat.S_IWOTH))


def _area(key: str, path: str, variable: str, environment: Mapping[str, str]) -> tuple[bytes, ...]:
    given = environment.get(variable, "").encode(errors="surrogateescape")
    own = [_digest(given, variable)] if given else []
    return (*own, *(_read(key, Path(path)) if path else ()))


def _read(key: str, path: Path) -> list[bytes]:
    """Return a digest of each line, except blank ones and those that begin with ``#``."""
    try:
        lines = [line.strip() for line in path.read_bytes().splitlines()]
    except OSError as error:
        raise StartupError(f"{key}: {path}: {error.strerror}") from error
    found = [
        _digest(line, f"{key}: {path}: line {number}")
        for number, line in enumerate(lines, 1)
        if line and not line.startswith(b"#")
    ]
    if not found:  # an empty file must not leave the area open
        raise StartupError(f"{key}: {path}: has no token")
    return found


def _digest(token: bytes, where: str) -> bytes:
    if not TOKEN.fullmatch(token):
        raise StartupError(f"{where}: not a token of letters, digits and -._~+/")
    return hashlib.sha256(token).digest()
