# SPDX-License-Identifier: Apache-2.0
"""Reads exit codes: the likely cause, and the signal."""

import itertools
import re
import signal
from collections.abc import Sequence
from pathlib import Path

from servekit.system import cgroups

__all__ = ["likely_reason", "oom_kills", "signal_name"]

KILLED = {
    True: "killed, likely out of memory",
    False: "killed from outside",
    None: "killed from outside, or out of memory",
}

#: how ``faulthandler`` shows where the interpreter was
CURRENT_THREAD = re.compile(r"Current thread .*\(most recent call first\):$")
FRAME = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+) in (?P<name>.*)$')


def oom_kills() -> int | None:
    """Return how many processes the kernel killed because memory ran out; ``None`` if unknown.

    Those of our control group count: on a shared machine, the memory of others runs out, too.
    """
    ours = cgroups.oom_kills()
    if ours is not None:
        return ours
    try:
        text = Path("/proc/vmstat").read_text(encoding="ascii")
    except OSError:
        return None
    counts = [line.split()[1] for line in text.splitlines() if line.startswith("oom_kill ")]
    return int(counts[0]) if counts else None


def likely_reason(
    exit_code: int, *, is_out_of_memory: bool | None, last_lines: Sequence[str] = ()
) -> str:
    """Return the likely cause in a few words, or "" if the exit code says enough."""
    if exit_code >= 0:
        return ""
    if exit_code == -signal.SIGKILL:
        return KILLED[is_out_of_memory]
    try:
        name = signal.strsignal(-exit_code) or ""
    except ValueError:
        return ""
    return name + _place(last_lines)


def signal_name(exit_code: int) -> str:
    """Return ``SIGSEGV`` for -11, or "" if no signal ended the process."""
    try:
        return signal.Signals(-exit_code).name if exit_code < 0 else ""
    except ValueError:
        return f"signal {-exit_code}"


def _place(last_lines: Sequence[str]) -> str:
    """Return where the interpreter was when a signal ended it, if ``faulthandler`` said so."""
    for before, line in itertools.pairwise(last_lines):
        frame = FRAME.match(line)
        if frame and CURRENT_THREAD.match(before):
            return f" in {frame['name']} ({Path(frame['file']).name}:{frame['line']})"
    return ""
