# SPDX-License-Identifier: Apache-2.0
"""The ``Prefer`` header (RFC 7240): whether to answer later, and how long to wait before."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["Preferences", "preferences"]

MAX_WAIT_S = 60.0  #: a client that wants to wait longer asks again
#: a name, perhaps a value, and parameters that mean nothing here
PREFERENCE = re.compile(
    rb"[ \t]*([\w!#$%&'*+.^`|~-]+)[ \t]*(?:=[ \t]*(?:\"([^\"\\]*)\"|([^\s\",;]*)))?[ \t]*(?:;.*)?"
)
SECONDS = re.compile(rb"[0-9]{1,9}")


class Preferences(NamedTuple):
    """What a client would like; what we do not know is passed over, as it is meant to be."""

    is_async: bool = False  #: an answer that is not there yet may be fetched later
    wait_s: float = 0.0  #: how long to wait for it first; "" means 0


def preferences(value: bytes) -> Preferences:
    """Read the value of ``Prefer``; of two that contradict each other the first counts."""
    found: dict[bytes, bytes] = {}
    for part in value.split(b","):
        if preference := PREFERENCE.fullmatch(part):
            name, quoted, plain = preference.groups()
            found.setdefault(name.lower(), quoted or plain or b"")
    wait = found.get(b"wait", b"")
    wait_s = min(float(wait), MAX_WAIT_S) if SECONDS.fullmatch(wait) else 0.0
    return Preferences(b"respond-async" in found, wait_s)
