# SPDX-License-Identifier: Apache-2.0
"""Whether the worker at the other end of a channel is alive and well."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from servekit.frontend.batching.environment import TimeLimits

__all__ = ["Liveness", "overtime"]

PING_S = 2.0  #: an idle worker is asked for a sign of life after a silence of this length
LOST_S = 1.0  #: a worker that closed its channel and lives on is given up after this long


class Liveness:
    """The signs of life of one worker. Moments are ``monotonic``."""

    __slots__ = ("failure", "heard_at", "is_given_up", "pinged_at")

    def __init__(self, now: float) -> None:
        """Begin with a channel that is opened *now*."""
        self.heard_at = now  #: its last message, or the end of the channel
        self.pinged_at = 0.0
        self.failure = ""  #: why its service is not well
        self.is_given_up = False  #: the supervisor was told that it hangs

    def is_well(self, now: float, limits: TimeLimits, *, is_working: bool) -> bool:
        """Whether it answered recently, or has tasks within their time."""
        is_heard = is_working or now - self.heard_at < limits.silence_s
        return is_heard and not self.is_given_up and not self.failure

    def is_ping_due(self, now: float) -> bool:
        """Whether it has been idle and silent for long."""
        return now - max(self.heard_at, self.pinged_at) > PING_S

    def silence(self, now: float, limits: TimeLimits) -> str:
        """Return what it does wrong as an idle worker; "" if nothing."""
        is_too_long = now - self.heard_at > limits.silence_s
        return f"did not answer for {limits.silence_s:g} s" if is_too_long else ""

    def absence(self, now: float) -> str:
        """Return what it does wrong as a worker without a channel; "" if nothing."""
        return "closed its channel" if now - self.heard_at > LOST_S else ""


def overtime(elapsed_s: float, limits: TimeLimits, *, is_streaming: bool) -> str:
    """Return what a worker does wrong that has had tasks for *elapsed_s*; "" if nothing.

    :param is_streaming: it says something after every step.
    """
    if elapsed_s <= (limits.step_s if is_streaming else limits.batch_s):
        return ""
    return f"{'a step' if is_streaming else 'predict'} took longer than {limits.step_s:g} s"
