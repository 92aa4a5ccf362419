# SPDX-License-Identifier: Apache-2.0
"""A process that has imported a service and forks workers, as the supervisor sees it."""

import dataclasses
import os
import socket
from collections.abc import Callable
from errno import EPIPE, ETIMEDOUT

import msgspec

from servekit.ipc.preloading import PID_BYTES, Fork, NotPreloaded, Preloaded
from servekit.supervisor.os.child import Child
from servekit.supervisor.os.loop import Loop
from servekit.supervisor.os.process import ProcessSpec
from servekit.supervisor.replicas.ranks import RankBoot
from servekit.supervisor.replicas.replica import Boot
from servekit.supervisor.replicas.worker import preloading

__all__ = ["PreloadedParent"]

FORK_S = 2.0  #: the longest wait for a fork, which takes milliseconds


class PreloadedParent:
    """From its start to its end. Without it, workers are started as those of other models."""

    def __init__(
        self,
        loop: Loop,
        boot: Boot,
        *,
        on_line: Callable[[str], object],
        on_settled: Callable[[float | None, str], object],
    ) -> None:
        """Start it.

        :param boot: of one of its workers.
        :param on_settled: gets the seconds of the imports, or ``None`` and why there is no parent.
        :raises OSError: it cannot be started.
        """
        self._on_settled = on_settled
        self._waiting: list[Callable[[], object]] = []
        self._has_settled = self._is_ready = self._is_gone = False
        self._forks, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._forks.settimeout(FORK_S)
        first = boot.ranks[0]
        with theirs:
            self._child: Child[Preloaded | NotPreloaded] = Child(
                loop,
                lambda control: preloading(first.command(control, theirs.fileno())),
                Preloaded | NotPreloaded,
                on_line=on_line,
                on_message=self._received,
                on_exit=self._exited,
            )
        self._child.send(first.launch)
        self._timer = loop.call_later(boot.timeout_s, self.close)

    @property
    def pid(self) -> int | None:
        """Its pid, while it runs."""
        return None if self._is_gone else self._child.process.pid

    def when_settled(self, call: Callable[[], object]) -> None:
        """Call *call* once it is known whether workers can be forked."""
        if self._has_settled:
            call()
        else:
            self._waiting.append(call)

    def applied(self, boot: Boot) -> Boot:
        """Return *boot* with a fork in place of a start, if there can be one."""
        if not self._is_ready:
            return boot

        return dataclasses.replace(boot, ranks=[self._forked(rank) for rank in boot.ranks])

    def _forked(self, rank: RankBoot) -> RankBoot:
        def command(control: int, listener: int) -> ProcessSpec:
            spec = rank.command(control, listener)
            return dataclasses.replace(spec, fork=lambda *given: self._fork(spec, *given))

        return dataclasses.replace(rank, command=command)

    def close(self) -> None:
        """End it; its workers stay."""
        self._is_ready = False
        self._child.process.kill()

    def _fork(self, spec: ProcessSpec, environment: dict[str, str], output: int) -> int:
        request = msgspec.json.encode(Fork(environment, os.getpid()))
        try:
            socket.send_fds(self._forks, [request], [*spec.inherited, output])
            pid = self._forks.recv(PID_BYTES)
        except TimeoutError:
            self.close()  # its late answer would be taken for that of the next worker
            raise TimeoutError(ETIMEDOUT, "the preloaded parent does not answer") from None
        except OSError:
            self.close()
            raise
        if not pid:
            raise BrokenPipeError(EPIPE, "the preloaded parent has ended")
        return int.from_bytes(pid)

    def _received(self, message: Preloaded | NotPreloaded) -> None:
        self._is_ready = isinstance(message, Preloaded)
        if isinstance(message, Preloaded):
            self._settle(message.import_s, "")
        else:
            self._settle(None, message.reason)

    def _exited(self, exit_code: int) -> None:
        was_ready, self._is_ready, self._is_gone = self._is_ready, False, True
        self._forks.close()
        self._settle(None, f"the parent exited with {exit_code}")
        if was_ready:  # nobody has closed it
            self._on_settled(None, f"the parent exited with {exit_code}")

    def _settle(self, import_s: float | None, reason: str) -> None:
        self._timer.cancel()
        if not self._has_settled:
            self._has_settled = True
            self._on_settled(import_s, reason)
            waiting, self._waiting = self._waiting, []
            for call in waiting:
                call()
