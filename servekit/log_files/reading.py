# SPDX-License-Identifier: Apache-2.0
"""Reads the files of a log directory, also those of a server that has ended."""

import heapq
import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BufferedReader
from operator import attrgetter
from pathlib import Path
from time import sleep
from typing import Final

import msgspec

from servekit.errors import StartupError
from servekit.ipc.kept_log import LogEntry, LogFilter
from servekit.log_files.names import file_name, model_of

__all__ = ["LogDirectory", "NoLogFiles"]

POLL_S: Final = 0.2
BY_TIME: Final = attrgetter("time")

_decode = msgspec.json.Decoder(LogEntry).decode


class NoLogFiles(StartupError):
    """The directory has no file of the model, or none at all."""

    exit_status = 1


@dataclass
class _Tail:
    """A file that is read while it grows."""

    file: BufferedReader
    partial: bytes = b""
    entries: list[LogEntry] = field(default_factory=list)

    def read(self) -> list[LogEntry]:
        """Return the entries that have been added since."""
        *lines, self.partial = (self.partial + self.file.read()).split(b"\n")
        return [entry for line in lines if (entry := _entry(line))]


class LogDirectory:
    """The log files below one directory, as one log."""

    def __init__(self, path: Path, wanted: LogFilter) -> None:
        """Show what *wanted* takes.

        :raises NoLogFiles: there is no file to read.
        """
        self._path, self._wanted = path, wanted
        self._tails: dict[str, _Tail] = {}
        if not self._names():
            about = f" of model {wanted.model}" if wanted.model else ""
            raise NoLogFiles(f"{path}: no log{about} is there")

    def last(self, most: int) -> list[LogEntry]:
        """Return the last *most* entries, in the order of their times."""
        for name in self._names():  # before they are read, so that nothing is left out later
            self._tails[name] = _Tail((self._path / name).open("rb"))
        parts = [self._written(name, tail) for name, tail in self._tails.items()]
        return list(deque(heapq.merge(*parts, key=BY_TIME), maxlen=most))

    def follow(self) -> Iterator[LogEntry]:
        """Yield what is added, for ever; after ``last``."""
        while True:
            found: list[LogEntry] = []
            for name in {*self._tails, *self._names()}:
                found += self._added(name)
            yield from sorted(found, key=BY_TIME)
            sleep(POLL_S)

    def close(self) -> None:
        """Close the files."""
        for tail in self._tails.values():
            tail.file.close()

    def _written(self, name: str, tail: _Tail) -> Iterator[LogEntry]:
        """Yield the entries of all files of one model, the oldest first."""
        complete = sorted(self._path.glob(f"{name}.*"), key=_number, reverse=True)
        for path in complete:
            if _number(path):
                with path.open("rb") as file:
                    yield from self._taken(_Tail(file).read())
        yield from self._taken(tail.read())

    def _added(self, name: str) -> list[LogEntry]:
        """Return what was added to the file *name*, and to the one that has taken its place."""
        tail = self._tails.get(name)
        found = tail.read() if tail else []
        if self._is_replaced(name, tail):
            if tail:
                found += tail.read()
                tail.file.close()
            self._tails[name] = _Tail((self._path / name).open("rb"))
            found += self._tails[name].read()
        return self._taken(found)

    def _is_replaced(self, name: str, tail: _Tail | None) -> bool:
        try:
            new = (self._path / name).stat()
        except OSError:
            return False
        old = os.fstat(tail.file.fileno()) if tail else None
        return old is None or (old.st_dev, old.st_ino) != (new.st_dev, new.st_ino)

    def _taken(self, entries: list[LogEntry]) -> list[LogEntry]:
        return [entry for entry in entries if self._wanted.takes(entry)]

    def _names(self) -> list[str]:
        try:
            names = [path.name for path in self._path.iterdir() if model_of(path.name) is not None]
        except OSError as error:
            raise NoLogFiles(f"{self._path}: {error.strerror}") from error
        own = file_name(self._wanted.model)
        return [name for name in names if not self._wanted.model or name == own]


def _number(path: Path) -> int:
    """Return 3 for ``server.jsonl.3``; 0 if it is another file."""
    ending = path.suffix[1:]
    return int(ending) if ending.isdecimal() and model_of(path.stem) is not None else 0


def _entry(line: bytes) -> LogEntry | None:
    """Return the record of *line*; ``None`` if it is not whole, as after a disk was full."""
    try:
        return _decode(line)
    except msgspec.DecodeError:
        return None
