# SPDX-License-Identifier: Apache-2.0
"""A started server with all its descendants, seen from outside."""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

GRACE_S: Final = 10.0  #: from SIGTERM to SIGKILL
TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
PR_SET_PDEATHSIG: Final = 1


class Stat(NamedTuple):
    """The fields of ``/proc/PID/stat`` that matter here; ``(pid, started)`` is never reused."""

    pid: int
    started: int
    parent: int
    session: int
    ticks: int  #: user and system time, that of reaped children included


class ServerProcess:
    """One server: a process in a session of its own, which may start others."""

    def __init__(self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> None:
        self.log = cwd / "log"
        with self.log.open("wb") as log:
            self._root = subprocess.Popen(
                argv,
                env=env,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )

    @property
    def is_running(self) -> bool:
        return self._root.poll() is None

    def cpu_s(self) -> float:
        """CPU seconds, user and system, that the whole tree has used since it started."""
        return sum(stat.ticks for stat in self._tree()) / TICKS_PER_S

    def pss_bytes(self) -> dict[int, int]:
        """Return the proportional memory of every process of the tree, by pid."""
        return {stat.pid: read_pss(stat.pid) for stat in self._tree()}

    def stop(self) -> None:
        """Ask the server to end, wait, then kill whatever of its tree is left.

        A second Ctrl-C waits until this is done.
        """
        with _uninterrupted():
            self._stop()

    def last_lines(self, count: int = 15) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-count:])

    def _stop(self) -> None:
        known = {(stat.pid, stat.started) for stat in self._tree()}
        if self.is_running:
            self._root.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._root.wait(GRACE_S)
        known |= {(stat.pid, stat.started) for stat in self._tree()}
        for stat in read_stats():
            if (stat.pid, stat.started) in known:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(stat.pid, signal.SIGKILL)
        self._root.wait()

    def _tree(self) -> list[Stat]:
        """Every process that descends from the root, or that is in its session."""
        stats, found = list(read_stats()), {self._root.pid}
        grown = True
        while grown:
            members = {s.pid for s in stats if s.parent in found or s.session == self._root.pid}
            grown = not members <= found
            found |= members
        return [stat for stat in stats if stat.pid in found]


def read_stats() -> Iterator[Stat]:
    """Yield the state of every process that is not a zombie."""
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                stat = parse_stat((directory / "stat").read_text(errors="replace"))
                if stat is not None:
                    yield stat


def parse_stat(text: str) -> Stat | None:
    """Read one ``/proc/PID/stat`` line; ``None`` for a zombie. The name may hold any character."""
    pid, rest = text.split(" ", 1)
    fields = rest.rpartition(")")[2].split()  # fields[0] is the state, field 3 of proc(5)
    if fields[0] in "ZX":
        return None
    ticks = sum(int(field) for field in fields[11:15])  # utime, stime, cutime, cstime
    return Stat(int(pid), int(fields[19]), int(fields[1]), int(fields[3]), ticks)


def read_pss(pid: int) -> int:
    """Return a process's proportional set size in bytes, 0 once it is gone."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0
    return parse_pss(text)


def parse_pss(text: str) -> int:
    """Read the ``Pss`` of one ``/proc/PID/smaps_rollup``, whose kB are 1,024 bytes."""
    sizes = (line.split()[1] for line in text.splitlines() if line.startswith("Pss:"))
    return 1024 * int(next(sizes, "0"))


def wait_until(condition: Callable[[], bool], *, seconds: float, every: float = 0.02) -> bool:
    """Return whether *condition* came true within *seconds*."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(every)
    return True


def free_port() -> int:
    """Return a loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C and SIGTERM back until the block is left."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _die_with_parent() -> None:
    """Runs in: the server, before exec. A benchmark that is killed leaves no server behind."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
