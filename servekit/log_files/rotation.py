# SPDX-License-Identifier: Apache-2.0
"""A file that is replaced when it is large enough, with a number of complete ones beside it."""

import os
from contextlib import suppress
from pathlib import Path

from servekit.system.appending import open_directory, open_own

__all__ = ["RotatingFile"]


class RotatingFile:
    """Appends whole lines to a file, and finds its way back if somebody moves or removes it."""

    def __init__(self, directory: Path, name: str, size_bytes: int, keep: int) -> None:
        """Open nothing yet.

        :param size_bytes: a file is complete when the next line would exceed this.
        :param keep: how many complete files stay, 1 or more: ``NAME.1`` is the newest.
        """
        self._directory = directory
        self._name = name
        self._limit = size_bytes
        self._keep = keep
        self._fd = -1
        self._size = 0
        self._is_within_line = False  #: the last write ended there

    def write(self, lines: bytes) -> None:
        """Append *lines*, each of which ends with a line break.

        :raises OSError: not all could be written.
        """
        if not self._is_in_place():
            self._open()
        if self._is_within_line:
            lines = b"\n" + lines
        while lines:
            end = lines.rfind(b"\n", 0, max(0, self._limit - self._size)) + 1
            if not end and self._size:
                self._rotate()
                continue
            count = os.write(self._fd, lines[: end or lines.index(b"\n") + 1])
            self._is_within_line = lines[count - 1 : count] != b"\n"
            self._size += count
            lines = lines[count:]

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _is_in_place(self) -> bool:
        if self._fd < 0:
            return False
        try:
            found, own = (self._directory / self._name).stat(), os.fstat(self._fd)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino)

    def _open(self) -> None:
        self.close()
        with suppress(FileExistsError):
            self._directory.mkdir(mode=0o750)
        place = open_directory(str(self._directory))
        try:
            self._fd = open_own(place, self._name)
        finally:
            os.close(place)
        self._size = os.fstat(self._fd).st_size
        self._is_within_line = bool(self._size)  # perhaps: an empty line does no harm

    def _rotate(self) -> None:
        """Give all files the next number, and remove those beyond the last one."""
        place = open_directory(str(self._directory))
        try:
            for number in range(self._keep, 0, -1):
                older = f"{self._name}.{number - 1}" if number > 1 else self._name
                with suppress(FileNotFoundError):
                    os.rename(older, f"{self._name}.{number}", src_dir_fd=place, dst_dir_fd=place)
            with suppress(FileNotFoundError):
                for number in range(self._keep + 1, 1000):
                    os.unlink(f"{self._name}.{number}", dir_fd=place)
        finally:
            os.close(place)
        self._open()
        self._is_within_line = False
