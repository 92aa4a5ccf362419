# SPDX-License-Identifier: Apache-2.0
"""The processes that fill one replica together: rank 0 answers, the others follow it."""

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from servekit.ipc.control import Launch, Ready
from servekit.supervisor.os.loop import Loop
from servekit.supervisor.os.process import ProcessSpec
from servekit.supervisor.replicas.worker import EXIT_S, Exit, Worker

__all__ = ["RankBoot", "RankGroup"]

#: causes of the end of a rank that was ready, in a group that was not
WHILE_LOADING: Final = {"hung": "load_timeout", "exited": "load_failed"}


@dataclass(frozen=True, slots=True)
class RankBoot:
    """How one process of a replica is started."""

    launch: Launch
    command: Callable[[int, int], ProcessSpec]


class RankGroup:
    """From the spawn of all ranks to the exit of the last one; most replicas have one rank.

    The group is ready when every rank is. When one of them dies, the others are killed, and its
    end is that of the group.
    """

    def __init__(
        self,
        loop: Loop,
        boots: Sequence[RankBoot],
        listener: socket.socket,
        *,
        on_line: Callable[[str], object],
        on_ready: Callable[[Ready], object],
        on_exit: Callable[[Exit], object],
    ) -> None:
        """Start all ranks.

        :param on_ready: gets the message of rank 0.
        :param on_exit: called once, when no process is left.
        :raises OSError: one cannot be started; those that were are killed.
        """
        self._loop = loop
        self._on_ready = on_ready
        self._on_exit = on_exit
        self._booting = set(range(len(boots)))
        self._running: set[int] = set()
        self._ready_message: Ready | None = None
        self._end: Exit | None = None
        self._is_ours = False  #: we end it, so that its end is that of rank 0
        self._is_killed = False
        self._workers: list[Worker] = []
        for rank, boot in enumerate(boots):
            try:
                self._start(rank, boot, listener, on_line)
            except OSError:
                self._on_exit = lambda _exit: None
                self.kill("another rank cannot be started")
                raise

    @property
    def pid(self) -> int:
        """The pid of rank 0."""
        return self._workers[0].process.pid

    @property
    def pids(self) -> set[int]:
        """The processes that run now."""
        return {self._workers[rank].process.pid for rank in self._running}

    def leave(self) -> None:
        """Ask rank 0 to finish its batch and exit; the others end after it."""
        self._is_ours = True
        if 0 in self._running:
            self._workers[0].leave()

    def retire(self) -> None:
        """Ask rank 0 to exit once every front-end has closed its channel."""
        self._is_ours = True
        if 0 in self._running:
            self._workers[0].retire()

    def kill(self, reason: str) -> None:
        """Kill all ranks; *reason* explains the exit that follows."""
        self._is_ours = self._is_killed = True
        self._kill_rest(reason)

    def _start(
        self,
        rank: int,
        boot: RankBoot,
        listener: socket.socket,
        on_line: Callable[[str], object],
    ) -> None:
        worker = Worker(
            self._loop,
            boot.command,
            listener,
            boot.launch,
            on_line=on_line,
            on_ready=partial(self._ready, rank),
            on_exit=partial(self._exited, rank),
        )
        self._workers.append(worker)
        self._running.add(rank)

    def _ready(self, rank: int, ready: Ready) -> None:
        self._booting.discard(rank)
        if rank == 0:
            self._ready_message = ready
        if not self._booting and self._ready_message is not None:
            self._on_ready(self._ready_message)

    def _exited(self, rank: int, ended: Exit) -> None:
        self._running.discard(rank)
        if self._end is None and (rank == 0 or not self._is_ours):
            self._end = self._of_group(rank, ended)
        if not self._running:
            self._on_exit(self._end or ended)
        elif self._is_ours and not self._is_killed:
            self._loop.call_later(EXIT_S, self._kill_rest)
        else:
            self._kill_rest()

    def _kill_rest(self, reason: str = "another rank has ended") -> None:
        for rank in list(self._running):
            self._workers[rank].kill(reason)

    def _of_group(self, rank: int, ended: Exit) -> Exit:
        """Return the end of a rank as that of its group."""
        if len(self._workers) == 1:
            return ended
        if self._booting and ended.served_s is not None:
            ended = replace(
                ended,
                served_s=None,
                cause=WHILE_LOADING.get(ended.cause, ended.cause),
                is_killed=ended.is_killed and ended.cause != "hung",
            )
        if not self._is_ours:
            reason = ended.reason or f"exited with {ended.exit_code}"
            ended = replace(ended, reason=f"rank {rank}: {reason}")
        return ended
