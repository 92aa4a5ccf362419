# SPDX-License-Identifier: Apache-2.0
"""Limits the work that costs the server more than the client. Pure: moments are passed in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h2.errors import ErrorCodes

from servekit_http2.frames import DATA, END_STREAM, HEADERS, SETTINGS, FrameError

if TYPE_CHECKING:
    from servekit_http2.frames import Frame

__all__ = ["FloodGuard"]

#: at once, and a second: streams that are begun and dropped (CVE-2023-44487, CVE-2025-8671)
RESETS, RESETS_PER_S = 200, 33
#: work that brings no request, in units of about a PING: SETTINGS, PRIORITY, WINDOW_UPDATE, DATA
#: that is empty or in small pieces, unknown frames and late ones
OVERHEAD, OVERHEAD_PER_S = 1000, 500
CREDIT_BYTES = 1024  #: this many bytes of responses allow one frame more
DATA_BYTES = 64  #: in a frame that are worth the work
PARTS = 4  #: frames that were joined make the work of one
ENTRIES_BYTES = 48  #: of SETTINGS make the work of a frame
FRAMES_A_REQUEST = 2  #: allowed with each request: some clients widen its window at once


class Allowance:
    """A store of at most *most* that fills by *rate* a second."""

    __slots__ = ("_at", "_left", "_most", "_rate")

    def __init__(self, most: float, rate: float, now: float) -> None:
        """Begin full at *now* (``monotonic``)."""
        self._most, self._rate = most, rate
        self._left, self._at = most, now

    def spend(self, now: float, cost: float = 1) -> bool:
        """Take *cost*; return whether there was enough."""
        self.add((now - self._at) * self._rate)
        self._at = now
        self._left -= cost
        return self._left >= 0

    def add(self, count: float) -> None:
        """Add *count*."""
        self._left = min(self._most, self._left + count)


class FloodGuard:
    """Guards against one client; a flood ends its connection with ENHANCE_YOUR_CALM."""

    __slots__ = ("_overhead", "_resets")

    def __init__(self, now: float) -> None:
        """Begin at *now* (``monotonic``)."""
        self._overhead = Allowance(OVERHEAD, OVERHEAD_PER_S, now)
        self._resets = Allowance(RESETS, RESETS_PER_S, now)

    def charge_frame(self, frame: Frame, now: float) -> None:
        """Charge the work that *frame* makes beyond what its request is worth.

        :raises FrameError: it is too much.
        """
        if frame.kind == HEADERS:
            return
        if frame.kind != DATA:
            extra = len(frame.data) // ENTRIES_BYTES if frame.kind == SETTINGS else 0
            self.charge(now, 1 + extra)
        elif not frame.flags & END_STREAM:
            cost = 1 + (frame.parts - 1) / PARTS - frame.content_bytes / DATA_BYTES
            if cost > 0:
                self.charge(now, cost)

    def charge(self, now: float, cost: float = 1) -> None:
        """Charge work that brings no request, or a request that is refused for our own reasons.

        :raises FrameError: it is too much.
        """
        if not self._overhead.spend(now, cost):
            raise FrameError(ErrorCodes.ENHANCE_YOUR_CALM, "too much work without a request")

    def charge_reset(self, now: float) -> None:
        """Charge a stream that ended before its response.

        :raises FrameError: there were too many.
        """
        if not self._resets.spend(now):
            raise FrameError(ErrorCodes.ENHANCE_YOUR_CALM, "too many streams without a response")

    def credit_request(self) -> None:
        """Allow a few frames about a request that has been taken."""
        self._overhead.add(FRAMES_A_REQUEST)

    def credit(self, sent: int) -> None:
        """Allow for *sent* bytes of responses: the client has to make room for them."""
        self._overhead.add(sent / CREDIT_BYTES)
