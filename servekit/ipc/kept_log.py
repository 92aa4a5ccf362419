# SPDX-License-Identifier: Apache-2.0
"""The last lines of the server's log, for operators who ask for them.

They are in a ring of bytes that the supervisor alone writes. The ring is a memfd, so it needs no
disk and never grows; a link in the run directory leads to it. A place in the log is the number of
bytes that were written before it. The head has two places: the end of the write in progress, which
tells a reader what may have been overwritten meanwhile, and the end of the last complete one.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Final

import msgspec

__all__ = ["LOG_LEVELS", "LogEntry", "LogFilter", "LogWriter", "read_log"]

LINK: Final = "log"  #: in the run directory
RING: Final = 1 << 20  #: bytes
HEAD: Final = Struct("=QQ")
LONGEST: Final = 1 << 16  #: characters of a message
LOG_LEVELS: Final = ("debug", "info", "warning", "error")


class LogEntry(msgspec.Struct, omit_defaults=True):
    """One record of the log: a line, or a traceback. What is empty is left out of its JSON."""

    time: str  #: in UTC, ISO 8601
    level: str  #: debug, info, warning or error
    event: str  #: one word for machines; ``output`` is a line that a process printed
    subject: str  #: ``digits/0``, ``digits``, ``front-end`` or ``servekit``
    message: str
    model: str = ""
    version: str = ""
    stage: str = ""
    replica: int | None = None
    traceback: str = ""  #: all its lines; *message* is then the last of them


@dataclass(frozen=True, slots=True)
class LogFilter:
    """The records that a reader wants."""

    model: str = ""  #: "" for everything
    level: str = "debug"  #: the lowest
    since: str = ""  #: the earliest time, written as that of a record

    def takes(self, entry: LogEntry) -> bool:
        """Whether *entry* is among them."""
        model, subject = self.model, entry.subject
        is_about = not model or model in (entry.model, subject) or subject.startswith(f"{model}/")
        is_loud = LOG_LEVELS.index(entry.level) >= LOG_LEVELS.index(self.level)
        return is_about and is_loud and entry.time >= self.since


_decode = msgspec.json.Decoder(LogEntry).decode


class LogWriter:
    """Keeps the last lines. Runs in: supervisor."""

    def __init__(self, run_dir: Path) -> None:
        """Make the memory, and the link to it in *run_dir*.

        :raises OSError: that is not possible.
        """
        self._memory = os.memfd_create("servekit-log", os.MFD_CLOEXEC)
        os.ftruncate(self._memory, HEAD.size + RING)
        (run_dir / LINK).symlink_to(f"/proc/{os.getpid()}/fd/{self._memory}")
        self._end = 0

    def add(self, line: LogEntry) -> None:
        """Add *line*; a very long message or traceback is cut."""
        line.message, line.traceback = line.message[:LONGEST], line.traceback[-LONGEST:]
        record = msgspec.json.encode(line) + b"\n"
        end, offset = self._end + len(record), self._end % RING
        os.pwrite(self._memory, HEAD.pack(end, self._end), 0)
        os.pwrite(self._memory, record[: RING - offset], HEAD.size + offset)
        if rest := record[RING - offset :]:
            os.pwrite(self._memory, rest, HEAD.size)
        os.pwrite(self._memory, HEAD.pack(end, end), 0)
        self._end = end

    def close(self) -> None:
        """Free the memory."""
        os.close(self._memory)


def read_log(run_dir: Path, after: int = 0) -> tuple[list[LogEntry], int]:
    """Return the lines that are kept from the place *after* on, and the place behind them.

    :raises OSError: the server of *run_dir* has ended.
    """
    memory = os.open(run_dir / LINK, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _, end = _head(memory)
        if after > end:  # it is a place in the log of another server
            after = 0
        start = max(after, end - RING)
        data = _copy(memory, start, end)
        kept = max(start, _head(memory)[0] - RING)
    finally:
        os.close(memory)
    data = data[kept - start :]
    if kept > after:  # in the middle of a line
        data = data.partition(b"\n")[2]
    return [_decode(line) for line in data.splitlines()], end


def _head(memory: int) -> tuple[int, int]:
    writing, complete = HEAD.unpack(os.pread(memory, HEAD.size, 0))
    return writing, complete


def _copy(memory: int, start: int, end: int) -> bytes:
    offset, size = start % RING, end - start
    first = os.pread(memory, min(size, RING - offset), HEAD.size + offset)
    return first + os.pread(memory, size - len(first), HEAD.size)
