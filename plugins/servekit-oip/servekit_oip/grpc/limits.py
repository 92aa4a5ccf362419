# SPDX-License-Identifier: Apache-2.0
"""Limits what one client may cost: memory of messages, calls that it drops, needless frames."""

from __future__ import annotations

from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Final

from servekit_oip.grpc.frames import CALM, ProtocolError

if TYPE_CHECKING:
    from servekit_oip.grpc.call import GrpcCall

__all__ = ["CallAllowance", "MessageBudget"]

BUDGET: Final = 16 * 2**20  #: bytes

#: at once, and a second: calls that are reset before they are answered (CVE-2023-44487)
RESETS, RESETS_PER_S = 200, 33
#: frames that bring no call: SETTINGS, PING, WINDOW_UPDATE, DATA that is nearly empty
FRAMES, FRAMES_PER_S = 1000, 500
FRAMES_A_MESSAGE: Final = 3.0  #: allowed with each message
CREDIT_BYTES: Final = 1024  #: this many bytes of responses allow one frame more


class CallAllowance:
    """The work that one connection may still cause; its two stores fill with time."""

    __slots__ = ("_at", "_frames", "_resets")

    def __init__(self) -> None:
        """Begin with full stores."""
        self._frames, self._resets, self._at = float(FRAMES), float(RESETS), monotonic()

    def _fill(self) -> None:
        now = monotonic()
        passed_s, self._at = now - self._at, now
        self._frames = min(FRAMES, self._frames + passed_s * FRAMES_PER_S)
        self._resets = min(RESETS, self._resets + passed_s * RESETS_PER_S)

    def charge(self) -> None:
        """Charge a frame that brings no call.

        :raises ProtocolError: there were too many.
        """
        self._frames -= 1
        if self._frames < 0:
            self._fill()
            if self._frames < 0:
                raise ProtocolError(CALM, "too many frames without a call")

    def charge_reset(self) -> None:
        """Charge a call that ended before its response.

        :raises ProtocolError: there were too many.
        """
        self._resets -= 1
        if self._resets < 0:
            self._fill()
            if self._resets < 0:
                raise ProtocolError(CALM, "too many calls are reset")

    def credit_message(self, size: int) -> None:
        """Allow for a message of *size* bytes, either way: clients measure how fast they are."""
        self._frames = min(FRAMES, self._frames + FRAMES_A_MESSAGE + size / CREDIT_BYTES)

    def credit_call(self, size: int) -> None:
        """Allow for a call that is answered with *size* bytes."""
        self.credit_message(size)
        self._resets = min(RESETS, self._resets + 1)


class MessageBudget:
    """How much of the messages of one connection may arrive at the same time.

    The first window of each call, and messages in shared memory, are not part of it. A message that
    is larger than all of it may arrive when no other does.
    """

    def __init__(self) -> None:
        """Begin with all of it."""
        self._granted = 0
        self._waiting: deque[GrpcCall] = deque()

    def grant(self, call: GrpcCall, count: int) -> bool:
        """Return whether a message of *call* may take *count* bytes now; else it waits."""
        if self._granted and self._granted + count > BUDGET:
            if call not in self._waiting:
                self._waiting.append(call)
            return False
        self._granted += count
        return True

    def has_waiting(self, call: GrpcCall) -> bool:
        """Whether *call* waits for others of this client."""
        return call in self._waiting

    def release(self, count: int) -> None:
        """Take *count* bytes back; those that wait may continue."""
        self._granted -= count
        while self._waiting:
            call = self._waiting.popleft()
            if call.incoming is not None:
                call.incoming.widen()
            if call in self._waiting:
                self._waiting.rotate(1)  # it is the first again
                return

    def clear(self) -> None:
        """Let nobody wait any more."""
        self._waiting.clear()
