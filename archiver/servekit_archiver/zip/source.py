# SPDX-License-Identifier: Apache-2.0
"""An archive file opened for reading at given offsets."""

import os
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Final, Self

from servekit_archiver.errors import ArchiveError, refuse_os_errors
from servekit_archiver.strictjson import show

__all__ = ["CHUNK_BYTES", "Source"]

CHUNK_BYTES: Final = 1 << 20


class Source:
    """A regular file; every read returns exactly what was asked for or is refused."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with refuse_os_errors(path):
            # O_NONBLOCK: a FIFO must not hold us until somebody writes into it
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            stat = os.fstat(self._fd)
        if not S_ISREG(stat.st_mode):
            self.close()
            kind = (
                "a directory; servekit build makes an archive of it"
                if S_ISDIR(stat.st_mode)
                else "not a regular file"
            )
            raise ArchiveError(f"{path}: is {kind}")
        self.size = stat.st_size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Harmless the second time."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def identity(self) -> str:
        """Return a string that changes whenever the file's content may have changed."""
        with refuse_os_errors(self.path):
            s = os.fstat(self._fd)
        return f"{s.st_dev} {s.st_ino} {s.st_size} {s.st_mtime_ns} {s.st_ctime_ns}"

    def read(self, offset: int, size: int) -> bytes:
        """Return *size* bytes from *offset*.

        :raises ArchiveError: the file ends before, or cannot be read.
        """
        pieces: list[bytes] = []
        while size > 0:
            with refuse_os_errors(self.path):
                piece = os.pread(self._fd, size, offset)
            if not piece:
                raise self.refuse(f"is cut short: it ends at byte {offset}, {size} are missing")
            pieces.append(piece)
            offset, size = offset + len(piece), size - len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def refuse(self, reason: str, entry: str | None = None) -> ArchiveError:
        """Return the error that says why this file, or one entry of it, is refused."""
        where = "" if entry is None else f"entry {show(entry)}: "
        return ArchiveError(f"{self.path}: {where}{reason}")
