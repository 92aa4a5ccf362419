# SPDX-License-Identifier: Apache-2.0
"""Requests that have arrived in part, in our own memory: counted, and shed if they are slow.

Most requests are whole once the socket has been read, and never come here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit.frontend.memory.pressure import Pressure

__all__ = ["ArrivingRequest"]

FREE_BYTES: Final = 4096  #: so much of a request is counted, but neither refused nor shed


class ArrivingRequest:
    """The part of one request that has arrived; a ``Holder``."""

    __slots__ = ("_counted", "_is_measured", "_pressure", "held", "left", "moved", "shed")

    def __init__(self, pressure: Pressure, shed: Callable[[], None]) -> None:
        """Count in *pressure*.

        :param shed: called when others need the memory more.
        """
        self._pressure, self.shed = pressure, shed
        self._counted = 0  #: bytes in ``pressure.arriving``
        self._is_measured = False  #: the shedder knows it
        self.held = 0  #: bytes that its end frees
        self.moved = 0  #: bytes that have arrived
        self.left = 0  #: bytes that have yet to be received, as far as is known

    @property
    def bodies(self) -> object:
        """Return the pressure: the request lies outside the arenas."""
        return self._pressure

    def hold(self, held: int, moved: int, left: int = -1, elsewhere: int = 0) -> bool:
        """Count *held* bytes from now on; return whether there is room for them.

        :param moved: bytes that have arrived so far.
        :param left: bytes that have yet to come; -1 if that is unknown.
        :param elsewhere: how many of those held are counted in ``pressure.bodies``.
        """
        pressure, more = self._pressure, held - elsewhere - self._counted
        if more > 0 and held > FREE_BYTES and not pressure.has_room_for_parts(more):
            return False
        pressure.arriving += more
        self._counted += more
        self.held, self.moved, self.left = held, moved, max(1, held if left < 0 else left)
        if held > FREE_BYTES and not self._is_measured:
            self._is_measured = True
            pressure.shedder.add(self)
        return True

    def end(self) -> None:
        """Count it no longer: it is whole, or nobody waits for the rest."""
        self._pressure.arriving -= self._counted
        self._counted = 0
        if self._is_measured:
            self._is_measured = False
            self._pressure.shedder.discard(self)
