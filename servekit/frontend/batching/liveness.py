# SPDX-License-Identifier: Apache-2.0
"""Whether the worker at the other end of a channel is alive and well."""

from typing import NamedTuple

__all__ = ["SILENCE_S", "Liveness", "TimeLimits", "overtime", "time_limits"]

PING_S = 2.0  #: an idle worker is asked for a sign of life after a silence of this length
SILENCE_S = 10.0  #: an idle worker that is silent for longer hangs
LOST_S = 1.0  #: a worker that closed its channel and lives on is given up after this long


class TimeLimits(NamedTuple):
    """How long a worker may take before it hangs."""

    step_s: float  #: between two outputs of a worker that streams
    batch_s: float  #: for a batch
    silence_s: float  #: while it has nothing to do, as it is asked for a sign of life
    greeting_s: float  #: to greet: it may have a batch of a front-end that is gone


def time_limits(predict_timeout_s: float, front_ends: int) -> TimeLimits:
    """Return the limits: a worker may first have to finish a batch of each other front-end."""
    batch_s, others_s = predict_timeout_s * front_ends, predict_timeout_s * (front_ends - 1)
    return TimeLimits(predict_timeout_s, batch_s, SILENCE_S + others_s, SILENCE_S + batch_s)


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

    def silence(self, now: float, limit_s: float) -> str:
        """Return what it does wrong as a worker without tasks; "" if nothing."""
        is_too_long = now - self.heard_at > limit_s
        return f"did not answer for {limit_s:.12g} s" if is_too_long else ""

    def absence(self, now: float) -> str:
        """Return what it does wrong as a worker without a channel; "" if nothing."""
        return "closed its channel" if now - self.heard_at > LOST_S else ""


def overtime(what: str, elapsed_s: float, limit_s: float, limits: TimeLimits) -> str:
    """Return the complaint about a worker that is busy with *what* for *elapsed_s*, or "".

    :param limit_s: one of *limits*; the complaint names the time that the author was promised.
    """
    return f"{what} took longer than {limits.step_s:.12g} s" if elapsed_s > limit_s else ""
