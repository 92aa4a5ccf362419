# SPDX-License-Identifier: Apache-2.0
"""A replica: a place that is filled by one worker after another."""

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Protocol

from servekit.ipc.control import Ready
from servekit.ipc.table import ReplicaRow
from servekit.supervisor.os.backoff import Backoff, Wait
from servekit.supervisor.os.loop import Loop, Timer
from servekit.supervisor.replicas.lifecycle import Event, State, advance
from servekit.supervisor.replicas.ranks import RankBoot, RankGroup
from servekit.supervisor.replicas.worker import Exit

__all__ = ["Boot", "Owner", "Replica"]


@dataclass(frozen=True, slots=True)
class Boot:
    """How the next worker is started."""

    ranks: Sequence[RankBoot]  #: its processes; rank 0 answers
    timeout_s: float


class Owner(Protocol):
    """The model of a replica."""

    def boot(self, replica: "Replica") -> Boot:
        """Return how the worker of the next generation is started."""

    def await_turn(self, replica: "Replica", *, is_urgent: bool) -> None:
        """Call its ``boot`` when there is room for one more load."""

    def end_turn(self, replica: "Replica") -> None:
        """Its load is over, or cancelled."""

    def printed(self, replica: "Replica", line: str) -> None:
        """Its worker printed a line."""

    def ready(self, replica: "Replica", ready: Ready) -> None:
        """Its worker is ready."""

    def exited(self, replica: "Replica", ended: Exit, wait: Wait | None) -> None:
        """Its worker has exited; the next one comes after *wait*, or none if it is ``None``."""


class Replica:
    """Keeps its place filled until it is stopped."""

    def __init__(
        self,
        loop: Loop,
        owner: Owner,
        index: int,
        listener: socket.socket,
        backoff: Backoff,
        *,
        place: int,
        stage: str = "",
    ) -> None:
        """Start no worker yet. The listener outlives the workers; replicas share *backoff*.

        :param index: unique among all replicas that the model ever had.
        :param place: 0 for the first of its stage; services see this number.
        """
        self._loop = loop
        self._owner = owner
        self._listener = listener
        self._address: str = listener.getsockname()
        self._backoff = backoff
        self._worker: RankGroup | None = None
        self._timer: Timer | None = None
        self._next_try = 0.0  #: ``monotonic``; past unless in backoff
        self.index = index
        self.place = place
        self.stage = stage
        self.generation = 0
        self.state = State.STARTING
        self.reason = "loading"
        self._has_served = False
        self._has_failed = False  #: its last worker was never ready, and nobody killed it

    @property
    def row(self) -> ReplicaRow:
        """This replica in the routing table."""
        state = self.state.name.lower()
        pid = self.pid or 0
        return ReplicaRow(
            self.index,
            self.generation,
            self._address,
            state,
            self.reason,
            pid,
            self._next_try,
            self.stage,
            sorted(self.pids - {pid}),
        )

    @property
    def has_settled(self) -> bool:
        """Whether its load is over: a worker serves, could not be loaded, or is not wanted.

        A worker that was ready and is gone says nothing of the next one, which is awaited.
        """
        return self._has_failed or self.state not in {State.STARTING, State.BACKOFF}

    @property
    def pid(self) -> int | None:
        """The pid of the worker, if any; of its rank 0."""
        return self._worker.pid if self._worker else None

    @property
    def pids(self) -> set[int]:
        """The processes of the worker that run now: one for each rank."""
        return self._worker.pids if self._worker else set()

    def start(self) -> None:
        """Boot the next worker as soon as there is room for it."""
        self._owner.await_turn(self, is_urgent=self._has_served)

    def boot(self) -> None:
        """Boot the next worker."""
        self.generation += 1
        try:
            boot = self._owner.boot(self)
            self._worker = RankGroup(
                self._loop,
                boot.ranks,
                self._listener,
                on_line=lambda line: self._owner.printed(self, line),
                on_ready=self._ready,
                on_exit=self._exited,
            )
        except OSError as error:  # out of processes, memory or descriptors
            self._exited(_not_started(error))
            return
        timed_out = f"not ready after {boot.timeout_s:.12g} s"
        self._set_timer(boot.timeout_s, lambda: self.kill(timed_out))

    def stop(self) -> None:
        """Let the worker finish its batch and exit; one that is booting is killed."""
        is_booting = self.state is State.STARTING
        self.state = advance(self.state, Event.STOP)
        self._set_timer(None)
        if self._worker is None:
            self._owner.end_turn(self)
            if is_booting:  # it waited for room to load
                self.state = advance(self.state, Event.EXITED)
        elif is_booting:
            self._worker.kill("stopped while it was loading")
        else:
            self._worker.leave()

    def retire(self) -> None:
        """Let the worker serve until the front-ends have closed their channels, then exit.

        One that leaves already is left alone: it may have something to finish.
        """
        if self.state is State.STOPPING:
            return
        if self._worker is not None and self.state is State.SERVING:
            self.state = advance(self.state, Event.STOP)
            self._worker.retire()
        else:
            self.stop()

    def kill(self, reason: str) -> None:
        """Kill the worker, if any; a new one follows unless the replica is stopping."""
        if self._worker is not None:
            self._worker.kill(reason)

    def close(self) -> None:
        """Close the listener and remove its path. The replica must be stopped."""
        self._listener.close()
        Path(self._address).unlink(missing_ok=True)

    def _ready(self, ready: Ready) -> None:
        self.state = advance(self.state, Event.READY)
        if self.state is State.SERVING:
            self._set_timer(None)
            self.reason = ""
            self._has_served, self._has_failed = True, False
            self._owner.ready(self, ready)
            self._owner.end_turn(self)

    def _exited(self, ended: Exit) -> None:
        self._worker = None
        self._set_timer(None)
        self._has_failed |= self.state is State.STARTING and not ended.is_killed
        self.reason = ended.reason or f"exited with {ended.exit_code}"
        self.state = advance(self.state, Event.EXITED)
        wait = None
        if self.state is State.BACKOFF:
            wait = self._judge(ended)
            if wait.has_given_up:
                self.state = advance(self.state, Event.GAVE_UP)
            self._set_timer(wait.delay_s, self._retry)
            self._next_try = monotonic() + wait.delay_s
        self._owner.exited(self, ended, wait)
        self._owner.end_turn(self)

    def _judge(self, ended: Exit) -> Wait:
        if ended.is_killed:
            return self._backoff.killed(monotonic(), has_served=ended.served_s is not None)
        return self._backoff.failed(monotonic(), ended.served_s)

    def _retry(self) -> None:
        self.state = advance(self.state, Event.RETRY)
        self.start()

    def _set_timer(
        self, delay_s: float | None, callback: Callable[[], None] = lambda: None
    ) -> None:
        """Replace the timer of the replica: the load timeout, or the wait in backoff."""
        if self._timer:
            self._timer.cancel()
        self._timer = None if delay_s is None else self._loop.call_later(delay_s, callback)


def _not_started(error: OSError) -> Exit:
    return Exit(
        pid=None,
        exit_code=-1,
        reason=f"cannot be started: {error.strerror}",
        served_s=None,
        lived_s=0.0,
        cause="not_started",
        is_killed=False,
    )
