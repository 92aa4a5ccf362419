# SPDX-License-Identifier: Apache-2.0
"""The ``Prefer`` header (RFC 7240): whether to respond later, and how long to wait before that."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = ["Preferences", "preferences"]

MAX_WAIT_S: Final = 60.0  #: a client that wants to wait longer asks again
#: a name, perhaps a value, and parameters, which have no meaning here; nothing is matched twice,
#: so that the time it takes is proportional to the length
PREFERENCE: Final = re.compile(
    rb"[ \t]*+([\w!#$%&'*+.^`|~-]++)[ \t]*+"
    rb"(?:=[ \t]*+(?:\"([^\"\\]*+)\"|([^\s\",;]*+)))?[ \t]*+(?:;.*)?"
)
SECONDS: Final = re.compile(rb"[0-9]{1,9}")


class Preferences(NamedTuple):
    """The preferences of a client; unknown ones are ignored, as the RFC asks."""

    is_async: bool = False  #: a result that takes long may be fetched later
    wait_s: float = 0.0  #: how long to wait for it first


def preferences(value: bytes) -> Preferences:
    """Return what the *value* of ``Prefer`` asks for; the first of two contradictions counts."""
    found: dict[bytes, bytes] = {}
    for part in value.split(b","):
        if preference := PREFERENCE.fullmatch(part):
            name, quoted, plain = preference.groups()
            found.setdefault(name.lower(), quoted or plain or b"")
    wait = found.get(b"wait", b"")
    wait_s = min(float(wait), MAX_WAIT_S) if SECONDS.fullmatch(wait) else 0.0
    return Preferences(b"respond-async" in found, wait_s)
