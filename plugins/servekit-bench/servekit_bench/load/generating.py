# SPDX-License-Identifier: Apache-2.0
"""Starts the processes of the load generator, and adds up their reports."""

import contextlib
import os
import selectors
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import IO, Final, cast

import msgspec

from servekit.errors import StartupError
from servekit_bench.load.measurement import Measurement
from servekit_bench.load.plan import BEGIN, FAILED, LENGTH, Load, LoadPlan, Target
from servekit_bench.load.records import LoadReport

__all__ = ["generate"]

LEAD_S: Final = 0.02  #: from the order to begin to the begin, for all processes at once
TICK_S: Final = 0.2  #: between calls of ``progress``
SLACK_S: Final = 10.0  #: how much longer a process may take before it counts as hung
MAX_DRAIN_S: Final = 5.0
COMMAND: Final = (sys.executable, "-P", "-m", "servekit_bench.load.process")


def generate(
    target: Target,
    load: Load,
    *,
    duration_s: float,
    warmup_s: float = 1.0,
    timeout_s: float = 10.0,
    processes: int = 0,
    deadline: float = float("inf"),
    progress: Callable[[float], None] | None = None,
) -> Measurement:
    """Put *load* on *target*, and measure. Blocks until it is over.

    Ctrl-C ends it early: the measurement until then is returned, with ``was_stopped``.

    :param timeout_s: the longest wait for an answer.
    :param processes: of the generator; 0 for one for every four cores.
    :param deadline: when to stop (monotonic), whatever has been measured until then.
    :param progress: called now and then with the seconds since the begin of the warm-up.
    :raises StartupError: the target cannot be reached.
    """
    count = min(processes or max(1, (os.cpu_count() or 1) // 4), load.connections)
    plans = [
        LoadPlan(
            target=target,
            load=load,
            warmup_s=warmup_s,
            duration_s=duration_s,
            timeout_s=timeout_s,
            drain_s=min(timeout_s, MAX_DRAIN_S),
            number=number,
            processes=count,
        )
        for number in range(count)
    ]
    with contextlib.ExitStack() as stack:
        children = [stack.enter_context(_child(plan)) for plan in plans]
        _await_ready(target, children)
        begin = monotonic() + LEAD_S
        for child in children:
            cast("IO[bytes]", child.stdin).write(BEGIN.pack(begin))
            cast("IO[bytes]", child.stdin).flush()
        end = begin + warmup_s + duration_s
        reports = _Reports(children, begin, deadline, end + plans[0].drain_s + SLACK_S)
        return Measurement.of([_decode(text) for text in reports.collect(progress)])


@contextlib.contextmanager
def _child(plan: LoadPlan) -> Iterator[subprocess.Popen[bytes]]:
    pipe = subprocess.PIPE
    with subprocess.Popen(COMMAND, stdin=pipe, stdout=pipe, start_new_session=True) as process:
        try:
            text = msgspec.msgpack.encode(plan)
            with contextlib.suppress(BrokenPipeError):  # it ended; its output says why
                cast("IO[bytes]", process.stdin).write(LENGTH.pack(len(text)) + text)
                cast("IO[bytes]", process.stdin).flush()
            yield process
        finally:
            process.kill()


def _await_ready(target: Target, children: Sequence[subprocess.Popen[bytes]]) -> None:
    for child in children:
        output = cast("IO[bytes]", child.stdout)
        first = output.read(1)
        if first == FAILED:
            where = target.unix_path or f"{target.host}:{target.port}"
            raise StartupError(f"{where}: {output.read().decode(errors='replace')}")
        if not first:
            raise StartupError(f"the load generator exited with {child.wait()}")


class _Reports:
    """Waits for the reports of all processes, and stops them early if need be."""

    def __init__(
        self,
        children: Sequence[subprocess.Popen[bytes]],
        begin: float,
        deadline: float,
        last: float,
    ) -> None:
        self._children, self._begin = children, begin
        self._deadline, self._last = deadline, last
        self._is_stopping = False
        self._texts = [b""] * len(children)
        self._selector = selectors.DefaultSelector()
        for number, child in enumerate(children):
            self._selector.register(cast("IO[bytes]", child.stdout), selectors.EVENT_READ, number)

    def collect(self, progress: Callable[[float], None] | None) -> list[bytes]:
        """Return one report for each process.

        :raises StartupError: a process hangs, or ended without a report.
        """
        while self._selector.get_map():
            try:
                self._wait()
                if progress is not None and not self._is_stopping:
                    progress(max(0.0, monotonic() - self._begin))
            except KeyboardInterrupt:
                if self._is_stopping:
                    raise
                self._stop()
        if not all(self._texts):
            raise StartupError("a process of the load generator ended without a report")
        return self._texts

    def _wait(self) -> None:
        now = monotonic()
        if now > self._last:
            raise StartupError("a process of the load generator hangs")
        if now > self._deadline and not self._is_stopping:
            self._stop()
        for key, _ in self._selector.select(TICK_S):
            data = os.read(key.fd, 1 << 20)
            self._texts[key.data] += data
            if not data:
                self._selector.unregister(key.fileobj)

    def _stop(self) -> None:
        """End the input of the processes: they report what they have."""
        self._is_stopping = True
        for child in self._children:
            with contextlib.suppress(OSError):
                cast("IO[bytes]", child.stdin).close()


def _decode(text: bytes) -> LoadReport:
    return msgspec.msgpack.decode(text, type=LoadReport)
