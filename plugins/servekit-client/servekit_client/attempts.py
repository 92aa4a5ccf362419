# SPDX-License-Identifier: Apache-2.0
"""The tries of one call: how long the next may take, and how long to wait before it."""

from random import uniform
from time import monotonic
from typing import Final

from servekit_client.errors import ConnectionRefused, DeadlineExceeded, ServekitError

__all__ = ["LONGEST_S", "OTHERS", "Attempts"]

#: servers that a call asks at once, one after the other, after one that is too busy. When all are
#: full, more would multiply the requests by the number of servers
OTHERS: Final = 3
FIRST_BACKOFF_S: Final = 0.1
LONGEST_S: Final = 1e6  #: no call takes longer, 11 days: sockets refuse an infinite timeout
#: each wait grows by up to this fraction of itself, so that not all clients return at once
JITTER: Final = 0.5


class Attempts:
    """Counts tries against a number and a deadline."""

    def __init__(self, retries: int, timeout_s: float, request_id: str) -> None:
        """Start the clock of a call that may be tried ``1 + retries`` times."""
        self._retries = retries
        self._others = OTHERS
        self._deadline = monotonic() + min(timeout_s, LONGEST_S)
        self._request_id = request_id
        self._backoff_s = FIRST_BACKOFF_S

    def left_s(self) -> float:
        """Return how long the call may still take, more than 0.

        :raises DeadlineExceeded: no time is left.
        """
        left_s = self._deadline - monotonic()
        if left_s <= 0:
            raise DeadlineExceeded(request_id=self._request_id)
        return left_s

    def pause_s(self, error: ServekitError, *, elsewhere: bool = False) -> float:
        """Return how long to wait before the next try.

        :param elsewhere: the next try is at a server that has not been tried: at once.
        :raises ServekitError: *error* itself, if there is no next try: its kind is not tried
            again, the tries are used up, or the deadline comes before the wait is over.
        """
        is_free = isinstance(error, ConnectionRefused)  # nobody was asked
        if error.may_retry and elsewhere and (is_free or self._others) and self._has_time():
            self._others -= not is_free
            return 0.0
        if not error.may_retry or self._retries <= 0:
            raise error
        wait_s = max(error.retry_after_s or 0.0, self._backoff_s)
        wait_s *= uniform(1, 1 + JITTER)  # noqa: S311 - nothing secret
        if monotonic() + wait_s >= self._deadline:
            raise error
        self._retries -= 1
        self._backoff_s *= 2
        return wait_s

    def _has_time(self) -> bool:
        return monotonic() < self._deadline
