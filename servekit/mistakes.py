# SPDX-License-Identifier: Apache-2.0
"""Mistakes in decoded values, in the words of our messages."""

import re
from typing import Final

__all__ = ["Mistake", "mistake_of"]

#: a path such as ``.points[3].x``, and what is wrong there
Mistake = tuple[str, str]

LOCATED: Final = re.compile(
    r"(?P<message>.*?)(?: - at (?P<key>`key` in )?`\$(?P<path>.*)`)?", re.DOTALL
)
NAMED: Final = re.compile(
    r"Object (?P<what>missing required|contains unknown) field `(?P<field>.*)`"
)
WHAT: Final = {"missing required": "missing", "contains unknown": "unknown field"}


def mistake_of(error: Exception) -> Mistake:
    """Return the path and the message of an error of msgspec, which takes Unicode only."""
    if isinstance(error, UnicodeEncodeError):
        return "", "holds a lone surrogate"
    located = LOCATED.fullmatch(str(error))
    message = located["message"] if located else str(error)
    path = (located and located["path"]) or ""
    if named := NAMED.fullmatch(message):
        return f"{path}.{named['field']}", WHAT[named["what"]]
    message = message.replace("`", "")
    message = message[:1].lower() + message[1:]
    return path, f"key: {message}" if located and located["key"] else message
