# SPDX-License-Identifier: Apache-2.0
"""Request ids: the client's own if it is well-formed, else one that no other request has."""

from __future__ import annotations

import os
import re

__all__ = ["RequestIds"]

WELL_FORMED = re.compile(rb"[\x21-\x7e]{1,128}")


class RequestIds:
    """Makes the ids of one front-end."""

    __slots__ = ("_count", "_prefix")

    def __init__(self) -> None:
        """Choose a prefix that no other front-end has."""
        self._prefix = os.urandom(6).hex()
        self._count = 0

    def make(self) -> str:
        """Return an id that no other request of this server has."""
        self._count += 1
        return f"{self._prefix}-{self._count:x}"

    def of(self, headers: dict[bytes, bytes]) -> str:
        """Return the id that the client gave in ``X-Request-Id``, or a new one."""
        given = headers.get(b"x-request-id")
        if given is not None and WELL_FORMED.fullmatch(given):
            return given.decode("latin-1")
        return self.make()
