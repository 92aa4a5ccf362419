# SPDX-License-Identifier: Apache-2.0
"""``key_file.json``: the tokens of a server, where TorchServe's clients look for them."""

from __future__ import annotations

import json
import os
import secrets
from typing import TYPE_CHECKING, Final

from servekit.errors import StartupError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["KEY_FILE", "make_tokens"]

KEY_FILE: Final = "key_file.json"
TOKEN_BYTES: Final = 32
#: area in the file to the variable with its token, and to that with a file of tokens
AREAS: Final = {
    "management": ("SERVEKIT_MANAGE_TOKEN", "SERVEKIT_MANAGE_TOKEN_FILE"),
    "inference": ("SERVEKIT_PREDICT_TOKEN", "SERVEKIT_PREDICT_TOKEN_FILE"),
}


def make_tokens(directory: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return a new token for each area that has none in *environment*, as variables.

    They are written to ``key_file.json`` in *directory*, which nobody else can read.

    :raises StartupError: the file cannot be written.
    """
    wanted = {
        area: variable
        for area, (variable, file) in AREAS.items()
        if not environment.get(variable) and not environment.get(file)
    }
    keys = {area: secrets.token_urlsafe(TOKEN_BYTES) for area in wanted}
    if keys:
        _write(directory / KEY_FILE, {area: {"key": key} for area, key in keys.items()})
    return {wanted[area]: key for area, key in keys.items()}


def _write(path: Path, areas: Mapping[str, Mapping[str, str]]) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(areas, file, indent=2)
        draft.replace(path)
    except OSError as error:
        reason = f"{path}: {error.strerror}; --disable-token-auth starts without tokens"
        raise StartupError(reason) from error
