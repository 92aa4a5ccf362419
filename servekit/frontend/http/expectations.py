# SPDX-License-Identifier: Apache-2.0
"""What a client hears that waits for a 100 before it sends the body (RFC 9110 10.1.1)."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from servekit.errors import UnknownMediaType

if TYPE_CHECKING:
    from servekit.errors import ServekitError
    from servekit.frontend.exchange.protocols import Route
    from servekit.ipc.table import ModelRow

__all__ = ["refusal_of_type"]


def refusal_of_type(route: Route, headers: dict[bytes, bytes]) -> ServekitError | None:
    """Return why a body of this ``Content-Type`` is not taken, if that is known beforehand."""
    given = headers.get(b"content-type", b"").partition(b";")[0].strip().lower().decode("latin-1")
    if not given or given.endswith("+json"):
        return None
    taken = media_types(route.row)
    if not taken or any(fnmatchcase(given, each) for each in taken):
        return None
    return UnknownMediaType(f"Content-Type: {given[:80]} is not taken; one of {', '.join(taken)}")


def media_types(row: ModelRow) -> list[str]:
    """Return what *row* takes, at whichever of its routes; nothing where that is not known."""
    if row.interface is None:
        return []
    sides = [row.interface, *(endpoint.interface for endpoint in row.interface.endpoints)]
    if not all(side.consumes for side in sides):
        return []
    return list(dict.fromkeys(name for side in sides for name in side.consumes))
