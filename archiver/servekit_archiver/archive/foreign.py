# SPDX-License-Identifier: Apache-2.0
"""Reads archives of other formats, for the plugins that know them: zip files, and tar with gzip.

Other tools write them, so the standard library reads them, which accepts more than our own reader.
Names, kinds of entries, their number, sizes and ratios are bounded as those of our own archives.
"""

from __future__ import annotations

import tarfile
import zlib
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from gzip import BadGzipFile
from lzma import LZMAError
from os import fstat
from stat import S_IFMT, S_IFREG
from typing import IO, TYPE_CHECKING, Final
from zipfile import BadZipFile, ZipFile, is_zipfile

from servekit_archiver.archive.bounded_gzip import BoundedGzip
from servekit_archiver.archive.placing import require_space, write_new_file
from servekit_archiver.counting import counted
from servekit_archiver.errors import ArchiveError, refuse_os_errors
from servekit_archiver.limits import DEFAULT_LIMITS, MANIFEST_BYTES, Limits
from servekit_archiver.names import find_clashes, name_problem
from servekit_archiver.progress import Meter, Progress
from servekit_archiver.strictjson import show

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

__all__ = ["ForeignArchive", "ForeignFile", "open_foreign_archive"]

CHUNK_BYTES: Final = 1 << 20
READ_ONLY: Final = 0o444
GZIP: Final = b"\x1f\x8b"
ENCRYPTED: Final = 1 << 0  #: flag of an entry of a zip file
#: what the readers of the standard library raise for content that they cannot read
UNREADABLE: Final = (
    *(BadZipFile, BadGzipFile, tarfile.TarError, zlib.error, LZMAError),
    *(EOFError, NotImplementedError, RuntimeError, ValueError),
)


@dataclass(frozen=True, slots=True)
class ForeignFile:
    """A file in an archive of another format."""

    name: str
    size: int  #: bytes
    packed_size: int  #: bytes in the archive; 0 if the format packs all files together
    open: Callable[[], IO[bytes] | None]
    problem: str = ""  #: why it cannot be unpacked


@contextmanager
def open_foreign_archive(
    path: Path, limits: Limits = DEFAULT_LIMITS
) -> Iterator[ForeignArchive | None]:
    """Open the zip file, or the tar file packed with gzip, at *path*; ``None`` for other files.

    :raises ArchiveError: a tar file unpacks to too much.
    """
    with refuse_os_errors(path), path.open("rb") as file:
        container = _open_container(file, limits)
        if container is None:
            yield None
            return
        with closing(container):
            try:
                archive = ForeignArchive(path, container, limits)
            except UNREADABLE:
                yield None
            else:
                yield archive


def _open_container(file: IO[bytes], limits: Limits) -> ZipFile | tarfile.TarFile | None:
    max_bytes = max(limits.ratio_from_bytes, limits.ratio * fstat(file.fileno()).st_size)
    is_gzip = file.read(len(GZIP)) == GZIP
    file.seek(0)
    if not is_gzip and not is_zipfile(file):
        return None
    try:
        if is_gzip:
            return tarfile.open(fileobj=BoundedGzip(file, max_bytes), mode="r:")
        return ZipFile(file)
    except UNREADABLE:
        return None


class ForeignArchive:
    """An open archive of another format; its entries are checked before they are unpacked."""

    def __init__(self, path: Path, container: ZipFile | tarfile.TarFile, limits: Limits) -> None:
        """List the files of *container*."""
        self.path, self._limits, self._room = path, limits, path.stat().st_size
        self._listed = list(
            _zip_files(container)
            if isinstance(container, ZipFile)
            else _tar_files(container, self._bounded(container))
        )
        self._files = {file.name: file for file in self._listed}

    @property
    def names(self) -> Sequence[str]:
        """The names of the files, with ``/`` between folders."""
        return list(self._files)

    def read(self, name: str) -> bytes:
        """Return the content of a file that is not longer than a manifest may be.

        :raises ArchiveError: there is no such file, it is longer, or it cannot be read.
        """
        file = self._files.get(name)
        if file is None:
            raise self._refuse("is missing", name)
        if file.size > MANIFEST_BYTES:
            raise self._refuse(f"is {file.size} bytes, limit {MANIFEST_BYTES}", name)
        return b"".join(self._pieces(file))

    def extract(self, directory: Path, folder: str = "", progress: Progress | None = None) -> None:
        """Write the files into *directory*, which must be new and out of others' reach.

        :param folder: write only what is in this folder of the archive, without its name.
        :raises ArchiveError: an entry is refused, or a file cannot be read or written.
        """
        self._require_sound()
        prefix = f"{folder}/" if folder else ""
        found = [file for file in self._listed if file.name.startswith(prefix)]
        total = sum(file.size for file in found)
        require_space(directory, total)
        meter = Meter(total, progress)
        for file in found:
            where = directory / file.name.removeprefix(prefix)
            with refuse_os_errors(f"{self.path}: entry {show(file.name)}", names_file=False):
                write_new_file(where, READ_ONLY, partial(self._copy, file, meter))

    def _copy(self, file: ForeignFile, meter: Meter, write: Callable[[bytes], object]) -> str:
        for piece in self._pieces(file):
            write(piece)
            meter.add(len(piece))
        return file.name

    def _pieces(self, file: ForeignFile) -> Iterator[bytes]:
        """Yield the content of *file*, never more than its size."""
        try:
            yield from _read_exactly(file)
        except UNREADABLE as error:
            raise self._refuse(f"cannot be read: {error}", file.name) from error

    def _bounded(self, members: Iterable[tarfile.TarInfo]) -> Iterator[tarfile.TarInfo]:
        """Yield *members* as long as they are not too many, since listing them unpacks them."""
        total, most = 0, 2 * self._limits.entries  # folders are members, too
        for count, member in enumerate(members):
            total += member.size
            if count >= most or self._limits.exceeds_ratio(total, self._room):
                raise self._refuse(f"unpacks to more than {total} bytes or {count} entries")
            yield member

    def _require_sound(self) -> None:
        """Refuse the archive if an entry may not be unpacked.

        :raises ArchiveError: names the entry and says why.
        """
        limits, files = self._limits, self._listed
        if len(files) > limits.entries:
            raise self._refuse(f"has {counted(len(files), 'file')}, limit {limits.entries}")
        for file in files:
            if problem := self._problem(file):
                raise self._refuse(problem, file.name)
        for one, other in find_clashes(file.name for file in files):
            raise self._refuse(f"clashes with {show(one)}: some systems treat both as one", other)
        if sum(file.packed_size for file in files) > self._room:
            raise self._refuse("has entries that overlap")
        if (total := sum(file.size for file in files)) > limits.total_bytes:
            raise self._refuse(f"unpacks to {total} bytes, limit {limits.total_bytes}")

    def _problem(self, file: ForeignFile) -> str:
        limits = self._limits
        if problem := name_problem(file.name):
            return f"its name {problem}"
        if file.size > limits.file_bytes:
            return f"is {file.size} bytes, limit {limits.file_bytes}"
        if limits.exceeds_ratio(file.size, file.packed_size or self._room):
            return f"unpacks {file.packed_size} bytes to {file.size}, limit {limits.ratio}:1"
        return file.problem

    def _refuse(self, reason: str, entry: str | None = None) -> ArchiveError:
        where = "" if entry is None else f"entry {show(entry)}: "
        return ArchiveError(f"{self.path}: {where}{reason}")


def _zip_files(container: ZipFile) -> Iterator[ForeignFile]:
    for info in container.infolist():
        if info.is_dir():
            continue
        is_regular = S_IFMT(info.external_attr >> 16) in (0, S_IFREG)
        problem = "" if is_regular else "is not a regular file"
        if info.flag_bits & ENCRYPTED:
            problem = "is encrypted"
        opened = partial(container.open, info)
        yield ForeignFile(info.filename, info.file_size, info.compress_size, opened, problem)


def _tar_files(
    container: tarfile.TarFile, members: Iterable[tarfile.TarInfo]
) -> Iterator[ForeignFile]:
    for member in members:
        if not member.isdir():
            problem = "" if member.isreg() else "is not a regular file"
            opened = partial(container.extractfile, member)
            yield ForeignFile(member.name.removeprefix("./"), member.size, 0, opened, problem)


def _read_exactly(file: ForeignFile) -> Iterator[bytes]:
    source, left = file.open(), file.size
    if source is None:
        raise ValueError("it is not a regular file")
    with source:
        while left and (piece := source.read(min(CHUNK_BYTES, left))):
            left -= len(piece)
            yield piece
        if left or source.read(1):  # the end of a zip entry checks its CRC-32
            raise ValueError(f"it does not unpack to {counted(file.size, 'byte')}")
