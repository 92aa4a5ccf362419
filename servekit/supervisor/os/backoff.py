# SPDX-License-Identifier: Apache-2.0
"""How long to wait before a process that ended is replaced. Pure: times are arguments."""

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["GIVE_UP_AFTER", "MAX_WAIT_S", "PROBE_S", "WINDOW_S", "Backoff", "Wait"]

FIRST_WAIT_S = 0.5
MAX_WAIT_S = 60.0
WINDOW_S = 60.0  #: failures within it count; a worker that served this long clears them
GIVE_UP_AFTER = 5  #: failures within the window
PROBE_S = 60.0  #: between two attempts after giving up
KILL_WINDOW_S = 5.0
KILL_WAIT_S = 0.25
MAX_KILL_WAIT_S = 4.0  #: between workers that are killed while they boot
JITTER = 0.1


@dataclass(frozen=True, slots=True)
class Wait:
    """The wait after one exit."""

    delay_s: float
    has_given_up: bool = False


class Backoff:
    """Counts the failures of one model's workers.

    They are counted for all replicas together, so that a model that cannot load starts the same
    few processes with one replica or ten.
    """

    def __init__(self, jitter: Callable[[], float] = random.random) -> None:
        """Begin without failures; *jitter* returns 0 to 1."""
        self._jitter = jitter
        self._failures: deque[float] = deque()
        self._last_kill = float("-inf")
        self._boot_kills = 0  #: since a worker last served
        self._has_given_up = False

    def failed(self, now: float, served_s: float | None) -> Wait:
        """Return the wait after a worker that ended by itself.

        :param served_s: how long it was ready, ``None`` if it never was. Only a worker that
            was ready is replaced at once, and only the first time.
        """
        if served_s is not None and served_s >= WINDOW_S:
            self._failures.clear()
            self._has_given_up = False
        while self._failures and self._failures[0] <= now - WINDOW_S:
            self._failures.popleft()
        self._failures.append(now)
        if self._has_given_up or len(self._failures) >= GIVE_UP_AFTER:
            self._has_given_up = True
            return Wait(PROBE_S, has_given_up=True)
        return Wait(self._delay(len(self._failures) - (served_s is not None)))

    def killed(self, now: float, *, has_served: bool = True) -> Wait:
        """Return the wait after a worker that was killed from outside, or by us because it hung.

        Neither says much about the model, so this never gives up. The second kill within a few
        seconds waits a little, so that kills cannot make us spin; as long as workers do not get
        ready, each wait is twice as long as the one before.
        """
        is_first = now - self._last_kill > KILL_WINDOW_S
        self._last_kill = now
        self._boot_kills = 0 if has_served else self._boot_kills + 1
        if self._boot_kills > 1:
            return Wait(min(MAX_KILL_WAIT_S, KILL_WAIT_S * 2 ** (self._boot_kills - 2)))
        return Wait(0.0 if is_first else KILL_WAIT_S)

    def _delay(self, doublings: int) -> float:
        """Return 0, 0.5, 1, 2, 4 ... seconds and a random part of that, up to a limit."""
        if doublings <= 0:
            return 0.0
        delay = FIRST_WAIT_S * 2.0 ** (doublings - 1) * (1 + JITTER * self._jitter())
        return min(MAX_WAIT_S, delay)
