# SPDX-License-Identifier: Apache-2.0
"""When a client has been silent for too long. Runs in: front-ends."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Final

from servekit.frontend.transport import BodyClock
from servekit_oip.grpc.frames import CALM, DATA, HEAD, ProtocolError

if TYPE_CHECKING:
    from servekit.settings import Settings

__all__ = ["SilenceClock"]

KIND: Final = 3  #: where the head of a frame says what it is
NOT_BEGUN: Final = -1


class SilenceClock:
    """Measures how long the client of one connection has been silent.

    A frame has ``header_timeout`` to arrive, or the time of a body if it is DATA. Between calls, a
    connection is kept for ``keep_alive``. During calls the client may have nothing to say: it is
    asked with a PING, and has ``send_timeout`` to answer.
    """

    __slots__ = ("_asked_at", "_body", "_frame", "_frame_at", "_settings", "frames", "heard_at")

    def __init__(self, settings: Settings) -> None:
        """Begin now."""
        self._settings = settings
        self.heard_at = monotonic()  #: when bytes came, or the last call ended
        self.frames = 0  #: how many were whole
        self._frame, self._frame_at = NOT_BEGUN, 0.0  #: the incomplete one that was seen, and when
        self._body: BodyClock | None = None  #: for a frame of DATA
        self._asked_at = 0.0

    def check_frame(self, rest: bytes, now: float) -> bool:
        """Return whether a frame is incomplete, of which *rest* has arrived.

        :raises ProtocolError: it does not arrive in time.
        """
        if not rest and self.frames:
            return False
        if self._frame != self.frames:
            self._frame, self._frame_at, self._body = self.frames, now, None
        if len(rest) < HEAD or rest[KIND] != DATA:
            is_late = now >= self._frame_at + self._settings.header_timeout
        else:
            self._body = self._body or BodyClock(self._settings, now)
            is_late = now >= self._body.expires(now, len(rest))
        if is_late:
            raise ProtocolError(CALM, "a frame did not arrive in time")
        return True

    def pause(self) -> None:
        """Begin the time of an incomplete frame again: it was not read for a while."""
        self._frame, self.heard_at = NOT_BEGUN, monotonic()

    def is_idle(self, now: float) -> bool:
        """Whether a connection without calls is to be closed."""
        return now >= self.idle_until()

    def idle_until(self) -> float:
        """Return how long (``monotonic``) a connection without calls is kept."""
        return self.heard_at + self._settings.keep_alive

    def asks(self, now: float) -> bool:
        """Return whether to send a PING now, since the client has said nothing during a call.

        :raises ProtocolError: it has not answered one.
        """
        if self._asked_at > self.heard_at:
            if now >= self._asked_at + self._settings.send_timeout:
                raise ProtocolError(CALM, "the client does not answer")
            return False
        if now < self.asks_at():
            return False
        self._asked_at = now
        return True

    def asks_at(self) -> float:
        """Return when the client is asked, or has to have answered (``monotonic``)."""
        if self._asked_at > self.heard_at:
            return self._asked_at + self._settings.send_timeout
        return self.heard_at + max(self._settings.keep_alive, self._settings.send_timeout)
