# SPDX-License-Identifier: Apache-2.0
"""How much of what costs us and not the client is borne. Pure: moments are handed in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h2.errors import ErrorCodes

from servekit.frontend.http2.frames import DATA, END_STREAM, HEADERS, SETTINGS, FrameError

if TYPE_CHECKING:
    from servekit.frontend.http2.frames import Frame

__all__ = ["Patience"]

#: at once, and a second: streams that are begun and dropped (CVE-2023-44487, CVE-2025-8671)
RESETS, RESETS_PER_S = 200, 33
#: work that brings no request, of about as much as a PING makes: SETTINGS, PRIORITY,
#: WINDOW_UPDATE, DATA without data or in small pieces, what is unknown or comes too late
CHATTER, CHATTER_PER_S = 1000, 500
EARNING_BYTES = 1024  #: of answers: for so much, one frame more is borne
DATA_BYTES = 64  #: so many in a frame are worth the work
PARTS = 4  #: frames that were joined make the work of one
ENTRIES_BYTES = 48  #: of SETTINGS make the work of a frame
FRAMES_A_REQUEST = 2  #: borne with each that is taken: some clients widen its window at once


class Allowance:
    """A store of *most* that fills by *rate* a second."""

    __slots__ = ("_at", "_left", "_most", "_rate")

    def __init__(self, most: float, rate: float, now: float) -> None:
        """Be full at *now* (``monotonic``)."""
        self._most, self._rate = most, rate
        self._left, self._at = most, now

    def spend(self, now: float, cost: float = 1) -> bool:
        """Take *cost*; return whether there was so much."""
        self.earn((now - self._at) * self._rate)
        self._at = now
        self._left -= cost
        return self._left >= 0

    def earn(self, count: float) -> None:
        """Add *count*."""
        self._left = min(self._most, self._left + count)


class Patience:
    """With one client; what is too much ends its connection by ENHANCE_YOUR_CALM."""

    __slots__ = ("_chatter", "_resets")

    def __init__(self, now: float) -> None:
        """Begin at *now* (``monotonic``)."""
        self._chatter = Allowance(CHATTER, CHATTER_PER_S, now)
        self._resets = Allowance(RESETS, RESETS_PER_S, now)

    def bear(self, frame: Frame, now: float) -> None:
        """Count the work that *frame* makes and its request is not worth.

        :raises FrameError: it is too much.
        """
        if frame.kind == HEADERS:
            return
        if frame.kind != DATA:
            extra = len(frame.data) // ENTRIES_BYTES if frame.kind == SETTINGS else 0
            self.bear_chatter(now, 1 + extra)
        elif not frame.flags & END_STREAM:
            cost = 1 + (frame.parts - 1) / PARTS - frame.content_bytes / DATA_BYTES
            if cost > 0:
                self.bear_chatter(now, cost)

    def bear_chatter(self, now: float, cost: float = 1) -> None:
        """Count work that brings no request, or one that we, and not its client, refuse.

        :raises FrameError: it is too much.
        """
        if not self._chatter.spend(now, cost):
            raise FrameError(ErrorCodes.ENHANCE_YOUR_CALM, "too much work without a request")

    def bear_reset(self, now: float) -> None:
        """Count a stream that ended before its answer.

        :raises FrameError: it is one too many.
        """
        if not self._resets.spend(now):
            raise FrameError(ErrorCodes.ENHANCE_YOUR_CALM, "too many streams without an answer")

    def earn_request(self) -> None:
        """A request has been taken, and the client may say a little more about it."""
        self._chatter.earn(FRAMES_A_REQUEST)

    def earn(self, sent: int) -> None:
        """*sent* bytes of answers went out: the client has to make room for them."""
        self._chatter.earn(sent / EARNING_BYTES)
