# SPDX-License-Identifier: Apache-2.0
"""The order to record: a file in the run directory that all front-ends of a server follow.

Each front-end appends its calls to a file beside it, and any of them can read all these files.
"""

from __future__ import annotations

import os
from time import time
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta, Struct

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["FOLLOWED", "OVER", "RecordingOrder", "Shelf"]

ORDER: Final = "order.json"
FOLLOWED: Final = "followed"  #: a front-end records what the order asks for
OVER: Final = "over"  #: a front-end has written the calls that it had recorded at the end
KEEP_S: Final = 60.0  #: a recording whose calls nobody fetches ends, and is removed, after it
PIECE_BYTES: Final = 1 << 20  #: read of each file at a time, and the rest of the last line


class RecordingOrder(Struct, kw_only=True, forbid_unknown_fields=True):
    """An operator asks for a recording: of these requests, until then."""

    model: str = ""  #: only of this one; "" means all
    share: Annotated[float, Meta(gt=0, le=1)] = 1.0  #: of the requests, drawn at random
    duration_s: Annotated[float, Meta(gt=0, le=86_400)] = 60.0
    max_bytes: Annotated[int, Meta(ge=1)] = 100 << 20  #: all calls together
    redact: list[str] = []  #: further header fields to leave out, in lower case
    id: str = ""  #: the server chooses it
    until_s: float = 0.0  #: seconds since 1970; the server sets it

    @property
    def has_ended(self) -> bool:
        """Whether no more calls are recorded."""
        return time() >= self.until_s


class Shelf:
    """The files of one server's recording: the order, and a file of calls of each front-end."""

    def __init__(self, directory: Path) -> None:
        """Use *directory*, which need not exist."""
        self._directory = directory
        self._path = directory / ORDER

    def order(self) -> RecordingOrder | None:
        """Return what is asked for, or was until a moment ago."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=RecordingOrder)
        except (OSError, msgspec.DecodeError):
            return None

    def ask(self, order: RecordingOrder) -> None:
        """Let front-ends follow *order*.

        :raises OSError: the file cannot be written.
        """
        self._directory.mkdir(mode=0o700, exist_ok=True)
        beside = self._directory / f"{ORDER}.{os.getpid()}"
        beside.write_bytes(msgspec.json.encode(order))
        beside.rename(self._path)

    def calls_path(self, order: RecordingOrder) -> Path:
        """Return where this process writes its calls."""
        return self._directory / f"{order.id}-{os.getpid()}.calls"

    def recorded_bytes(self) -> int:
        """Return the size of the calls of all front-ends."""
        return sum(path.stat().st_size for path in self._directory.glob("*.calls"))

    def read(
        self, order: RecordingOrder, after: dict[str, int]
    ) -> tuple[list[str], dict[str, int]]:
        """Return lines that follow the places *after*, and the places behind them.

        The time of the order's file says when somebody did so last.

        :param after: bytes of each file that have been read.
        """
        lines: list[str] = []
        places = dict(after)
        os.utime(self._path)
        for path in sorted(self._directory.glob(f"{order.id}-*.calls")):
            with path.open("rb") as file:
                file.seek(places.get(path.name, 0))
                content = file.read(PIECE_BYTES) + file.readline()
                whole, end, _ = content.rpartition(b"\n")
            if end:
                lines += whole.decode().split("\n")
                places[path.name] = places.get(path.name, 0) + len(whole) + 1
        return lines, places

    def mark(self, order: RecordingOrder, state: str) -> None:
        """Tell the other front-ends that this one has come to *state*: ``FOLLOWED`` or ``OVER``."""
        mark = self._directory / f"{order.id}-{os.getpid()}.{state}"
        mark.touch()
        if not self._path.exists():  # the recording has been removed meanwhile
            mark.unlink(missing_ok=True)

    def marks(self, order: RecordingOrder, state: str) -> int:
        """Return how many front-ends have come to *state*."""
        return len([*self._directory.glob(f"{order.id}-*.{state}")])

    def clear(self) -> None:
        """Remove everything; the order first, so that nobody leaves a mark behind."""
        self._path.unlink(missing_ok=True)
        for path in self._directory.glob("*"):
            path.unlink(missing_ok=True)

    def clear_forgotten(self) -> None:
        """Remove a recording whose calls nobody fetches any more."""
        try:
            fetched_s = self._path.stat().st_mtime
        except OSError:
            return
        if time() >= fetched_s + KEEP_S:
            self.clear()
