# SPDX-License-Identifier: Apache-2.0
"""Writes the records that the supervisor sends through a pipe to their files.

This runs in a separate process, so that a disk that is full, slow or gone delays nobody. A record
is a line of JSON after the name of its file and a tab.
"""

import os
import sys
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Protocol

import msgspec

__all__ = ["AppendedFile", "LogFileWriter"]

READ_BYTES: Final = 1 << 18
MAX_OPEN: Final = 100  #: files; of more the one that is longest unused is closed


class AppendedFile(Protocol):
    """One file."""

    def write(self, lines: bytes) -> None:
        """Append *lines*; may raise ``OSError``."""

    def close(self) -> None:
        """Close it."""


class LogFileWriter:
    """The files of one directory. What cannot be written is dropped and counted."""

    def __init__(self, open_file: Callable[[str], AppendedFile]) -> None:
        """Get files by their name from *open_file*."""
        self._open_file = open_file
        self._files: OrderedDict[str, AppendedFile] = OrderedDict()
        self._lost: dict[str, int] = {}  #: lines, by the name of their file

    def run(self, pipe: int) -> None:
        """Write until the other end of *pipe* is closed."""
        rest = b""
        while chunk := os.read(pipe, READ_BYTES):
            *records, rest = (rest + chunk).split(b"\n")
            self.write(records)
        for file in self._files.values():
            file.close()

    def write(self, records: list[bytes]) -> None:
        """Write *records* in the order in which they came, one write for each file."""
        lines: dict[str, bytearray] = {}
        for record in records:
            name, _, line = record.partition(b"\t")
            lines.setdefault(name.decode(), bytearray()).extend(line + b"\n")
        for file, each in lines.items():
            self._append(file, bytes(each))

    def _append(self, name: str, lines: bytes) -> None:
        lost = self._lost.get(name, 0)
        try:
            self._file(name).write((_lost_line(lost) if lost else b"") + lines)
        except OSError as error:
            self._lost[name] = lost + lines.count(b"\n")
            if not lost:
                _say(f"{name}: {error.strerror}: its lines are lost until that ends")
        else:
            if lost:
                del self._lost[name]
                _say(f"{name} is written again; lines lost: {lost}")

    def _file(self, name: str) -> AppendedFile:
        if name not in self._files:
            self._files[name] = self._open_file(name)
        self._files.move_to_end(name)
        if len(self._files) > MAX_OPEN:
            self._files.popitem(last=False)[1].close()
        return self._files[name]


def _lost_line(count: int) -> bytes:
    """Return a record that says where lines are missing."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    record = {"time": now, "level": "warning", "event": "lines_lost", "subject": "log-files"}
    return msgspec.json.encode(record | {"message": f"lines lost before this one: {count}"}) + b"\n"


def _say(text: str) -> None:
    sys.stderr.write(f"warning: {text}\n")
    sys.stderr.flush()
