# SPDX-License-Identifier: Apache-2.0
"""A gzip file with a limit on what is unpacked, for tar files of other tools."""

import os
from gzip import GzipFile
from typing import IO, Final

from servekit_archiver.errors import ArchiveError

__all__ = ["BoundedGzip"]

#: tarfile reads files in pieces, but the long names and the headers of entries as a whole
MAX_READ_BYTES: Final = 1 << 20


class BoundedGzip(GzipFile):
    """Reads a gzip file, and refuses to unpack more than its limit."""

    def __init__(self, file: IO[bytes], max_bytes: int) -> None:
        """Unpack at most *max_bytes* of *file*, which stays open."""
        super().__init__(fileobj=file, mode="rb")
        self._source, self._max_bytes = file.name, max_bytes

    def read(self, size: int | None = -1) -> bytes:
        """Return *size* bytes, or fewer at the end.

        :raises ArchiveError: they are beyond the limit, or too many at once.
        """
        if size is None or not 0 <= size <= MAX_READ_BYTES:
            raise ArchiveError(f"{self._source}: has an entry with a header of {size} bytes")
        self._require(self.tell() + size)
        return super().read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to *offset*, which is counted from the beginning.

        :raises ArchiveError: it is beyond the limit.
        """
        self._require(offset)
        return super().seek(offset, whence)

    def _require(self, end: int) -> None:
        if end > self._max_bytes:
            raise ArchiveError(f"{self._source}: unpacks to more than {self._max_bytes} bytes")
