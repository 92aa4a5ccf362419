# SPDX-License-Identifier: Apache-2.0
"""Reads ``config.properties``, and the variables that win over it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from servekit.errors import StartupError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = ["parse", "read_properties"]

COMMENTS: Final = ("#", "!")
SEPARATOR: Final = re.compile(r"(?<!\\)\s*[=:]\s*|(?<!\\)\s+")
ESCAPE: Final = re.compile(r"\\(.)")
ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
VARIABLE: Final = re.compile(r"\$\$(\w+)\$\$")
PREFIX: Final = "TS_"
USES_VARIABLES: Final = "enable_envvars_config"


def read_properties(path: Path | None, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of the file at *path*, if there is one.

    With ``enable_envvars_config=true``, a variable ``TS_KEY`` sets ``key``.

    :raises StartupError: the file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8") if path is not None else ""
    except (OSError, UnicodeDecodeError) as error:
        raise StartupError(f"{path}: {error}") from error
    found = {key: _filled(value, environment) for key, value in parse(text).items()}
    if found.get(USES_VARIABLES, "").lower() == "true":
        found |= {
            name.removeprefix(PREFIX).lower(): value
            for name, value in environment.items()
            if name.startswith(PREFIX)
        }
    return found


def parse(text: str) -> dict[str, str]:
    """Return the properties in *text*, a file of Java properties."""
    found = {}
    for line in _lines(text):
        key, *rest = SEPARATOR.split(line, maxsplit=1)
        found[_unescaped(key)] = _unescaped(rest[0]) if rest else ""
    return found


def _lines(text: str) -> Iterator[str]:
    """Yield the lines without comments; a backslash at the end joins one with the next."""
    begun = ""
    for line in text.splitlines():
        stripped = line.strip()
        if not begun and (not stripped or stripped.startswith(COMMENTS)):
            continue
        begun += stripped.removesuffix("\\")
        backslashes = len(stripped) - len(stripped.rstrip("\\"))
        if backslashes % 2 == 0:
            yield begun
            begun = ""
    if begun:
        yield begun


def _unescaped(text: str) -> str:
    return ESCAPE.sub(lambda found: ESCAPED.get(found[1], found[1]), text)


def _filled(value: str, environment: Mapping[str, str]) -> str:
    """Return *value* with the variables that it names: ``$$HOME$$/store``."""
    return VARIABLE.sub(lambda found: environment.get(found[1], ""), value)
