# SPDX-License-Identifier: Apache-2.0
"""Calls are handed to threads, each of which sends them over one connection."""

from __future__ import annotations

import threading
from time import monotonic, sleep
from typing import TYPE_CHECKING, TypeAlias

from servekit_record.sending import Sender

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from servekit_record.recording import RecordedCall
    from servekit_record.sending import Address, ReplayedResponse

__all__ = ["send_all"]

#: gets a call, its number in the recording (from 1), and its answer
Take: TypeAlias = "Callable[[int, RecordedCall, ReplayedResponse], None]"


class CallFeed:
    """Hands out calls to several threads, in their order."""

    def __init__(self, calls: Iterable[tuple[int, RecordedCall]], *, keeps_pace: bool) -> None:
        """Hand out *calls*, each with its number.

        :param keeps_pace: leave as much time between them as there was when they were recorded.
        """
        self._calls = iter(calls)
        self._keeps_pace = keeps_pace
        self._lock = threading.Lock()
        self._began = monotonic()
        self._first_s: float | None = None  #: when the first call was recorded
        self.failure: BaseException | None = None  #: ends all threads

    def next(self) -> tuple[int, RecordedCall] | None:
        """Return a call when it is due, and its number; ``None`` if there are no more."""
        with self._lock:
            found = next(self._calls, None) if self.failure is None else None
            if found is not None and self._first_s is None:
                self._first_s = found[1].time_s
        if found is not None and self._keeps_pace:
            after_s = found[1].time_s - (self._first_s or 0.0)
            sleep(max(0.0, after_s - (monotonic() - self._began)))
        return found

    def take(self, number: int, call: RecordedCall, answer: ReplayedResponse, take: Take) -> None:
        """Pass an *answer* to *take*, in one thread at a time."""
        with self._lock:
            take(number, call, answer)


def send_all(
    calls: Iterable[tuple[int, RecordedCall]],
    address: Address,
    take: Take,
    *,
    connections: int = 1,
    keeps_pace: bool = False,
) -> None:
    """Send *calls* in their order, each with its number, and give *take* the answers.

    :param take: called in one thread at a time.
    """
    feed = CallFeed(calls, keeps_pace=keeps_pace)
    threads = [
        threading.Thread(target=_send_some, args=(feed, address, take), daemon=True)
        for _ in range(connections)
    ]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException as error:  # Ctrl-C: what has been answered counts
        feed.failure = error
        raise
    if feed.failure is not None:
        raise feed.failure


def _send_some(feed: CallFeed, address: Address, take: Take) -> None:
    """Send calls over one connection. Runs in a thread."""
    sender = Sender(address)
    try:
        while (found := feed.next()) is not None:
            feed.take(*found, sender.send(found[1]), take)
    except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
        feed.failure = error
    finally:
        sender.close()
