# SPDX-License-Identifier: Apache-2.0
"""The event loop: file descriptors, timers and signals, one callback after another."""

import heapq
import itertools
import selectors
import signal
import socket
from collections.abc import Callable, Iterable
from time import monotonic

__all__ = ["READ", "WRITE", "Loop", "Timer"]

READ = selectors.EVENT_READ
WRITE = selectors.EVENT_WRITE


class Timer:
    """One call in the future; cancelling twice, or after it ran, does nothing."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], object]) -> None:
        """Remember what to call."""
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        """Never call it."""
        self.callback = None


class Loop:
    """Runs callbacks in one thread; none of them may block."""

    def __init__(self, on_error: Callable[[Exception], None] | None = None) -> None:
        """*on_error* gets exceptions of callbacks; without it, they end the loop."""
        self._selector = selectors.DefaultSelector()
        self._watched: dict[int, Callable[[int], object]] = {}
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._deferred: dict[Callable[[], object], None] = {}
        self._is_running = False
        self._on_error = on_error

    def watch(self, fd: int, callback: Callable[[int], object], events: int = READ) -> None:
        """Call *callback* with the events of *fd*, level-triggered; replaces an earlier watch."""
        if fd in self._watched:
            self._selector.modify(fd, events, callback)
        else:
            self._selector.register(fd, events, callback)
        self._watched[fd] = callback

    def unwatch(self, fd: int) -> None:
        """Forget *fd*; must come before it is closed."""
        if self._watched.pop(fd, None) is not None:
            self._selector.unregister(fd)

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> Timer:
        """Call *callback* once, *delay_s* from now."""
        timer = Timer(callback)
        heapq.heappush(self._timers, (monotonic() + delay_s, next(self._order), timer))
        return timer

    def defer(self, callback: Callable[[], object]) -> None:
        """Call *callback* once at the end of this turn, even if this is called several times."""
        self._deferred[callback] = None

    def watch_signals(self, numbers: Iterable[int], callback: Callable[[int], object]) -> None:
        """Call *callback* with the number of each signal that comes. Main thread only."""
        receiver, sender = socket.socketpair()
        receiver.setblocking(False)
        sender.setblocking(False)
        signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        for number in numbers:
            signal.signal(number, _wake_up_only)

        def receive(_events: int) -> None:
            for number in receiver.recv(64):
                callback(number)

        self._wakeup = (receiver, sender)  # keeps both ends open
        self.watch(receiver.fileno(), receive)

    def forget_signals(self) -> None:
        """Ignore signals from now on, so that nothing interrupts the end."""
        signal.set_wakeup_fd(-1)

    def run(self) -> None:
        """Run until ``stop``."""
        self._is_running = True
        while self._is_running:
            for key, events in self._selector.select(self._patience()):
                callback = self._watched.get(key.fd)
                # an earlier callback of this turn may have closed the descriptor, or reused it
                if callback is not None and callback is key.data:
                    self._call(callback, events)
            self._run_timers()
            self._run_deferred()

    def stop(self) -> None:
        """Leave ``run`` after this turn."""
        self._is_running = False

    def _patience(self) -> float | None:
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)
        return max(0.0, self._timers[0][0] - monotonic()) if self._timers else None

    def _run_timers(self) -> None:
        now = monotonic()
        while self._timers and self._timers[0][0] <= now:
            timer = heapq.heappop(self._timers)[2]
            callback, timer.callback = timer.callback, None
            if callback is not None:
                self._call(callback)

    def _run_deferred(self) -> None:
        while self._deferred:
            callback = next(iter(self._deferred))
            del self._deferred[callback]
            self._call(callback)

    def _call(self, callback: Callable[..., object], *arguments: int) -> None:
        try:
            callback(*arguments)
        except Exception as error:
            if self._on_error is None:
                raise
            self._on_error(error)


def _wake_up_only(_number: int, _frame: object) -> None:
    """Python writes the number to the wake-up descriptor; nothing is done in the handler."""
