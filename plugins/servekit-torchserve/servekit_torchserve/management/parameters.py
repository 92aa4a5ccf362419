# SPDX-License-Identifier: Apache-2.0
"""Parameters of calls. As in TorchServe, a number that is not one counts as not given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from servekit.extension import read_json
from servekit_torchserve.management.errors import WrongParameter

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Parameters"]

TRUE = ("true", "1")
FALSE = ("false", "0")


class Parameters:
    """Parameters by name, as text or as JSON."""

    def __init__(self, given: Mapping[str, Any], body: bytes = b"") -> None:
        """Take those *given* in the query, which win over the members of *body*.

        :raises WrongParameter: *body* is not a JSON object.
        """
        self._given = {**_members(body), **given}

    def text(self, name: str, default: str = "") -> str:
        """Return a parameter as a string."""
        value = self._given.get(name)
        return default if value is None else str(value)

    def number(self, name: str) -> int | None:
        """Return a whole number, or ``None`` if there is none."""
        try:
            return int(str(self._given[name]))
        except (KeyError, ValueError):
            return None

    def switch(self, name: str, *, default: bool) -> bool:
        """Return whether something is wanted."""
        value = str(self._given.get(name, "")).lower()
        return value in TRUE if value in (*TRUE, *FALSE) else default

    def __contains__(self, name: str) -> bool:
        return self._given.get(name) is not None


def _members(body: bytes) -> dict[str, Any]:
    if not body.strip():
        return {}
    try:
        return read_json(body, dict[str, Any])
    except msgspec.DecodeError as error:
        raise WrongParameter(f"the body is not a JSON object: {error}") from None
