# SPDX-License-Identifier: Apache-2.0
"""Looks into files and what they contain: zip and tar files, compressed streams, ``.npy``."""

import ast
import io
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, cast

from numpy.lib.format import descr_to_dtype

from servekit_policy.pickles.harmless import HARMLESS
from servekit_policy.pickles.unpacking import Bounded, unpacking
from servekit_policy.pickles.walking import UNKNOWN, Walked, walk

__all__ = ["Finding", "scan_directory", "scan_file"]

DEPTH: Final = 4  #: the most archives within one another
NESTED_BYTES: Final = 256 << 20  #: of an archive in an archive, which is read into memory
HEAD_BYTES: Final = 512
NPY: Final = b"\x93NUMPY"
ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06")
LZ4: Final = b"\x04\x22\x4d\x18"


@dataclass(frozen=True, slots=True)
class Finding:
    """A pickle, or content that could not be looked at."""

    place: str  #: the file, and the path inside of it: ``weights.pt!archive/data.pkl``
    imports: tuple[str, ...] = ()  #: ``os.system``; ``?`` is a name that is computed
    problem: str = ""  #: why not all of it could be read

    @property
    def dangerous(self) -> list[str]:
        """The imports that are not known to be harmless."""
        return [name for name in self.imports if name not in HARMLESS]

    @property
    def is_harmless(self) -> bool:
        """Whether it holds nothing but data, as far as its imports show."""
        return not self.problem and not self.dangerous

    def __str__(self) -> str:
        """Return it in words, without the place."""
        named = [name.replace(UNKNOWN, "a computed name") for name in self.dangerous]
        if named:
            return f"is a pickle that imports {', '.join(named[:5])}"
        return self.problem or "is a pickle"


def scan_directory(directory: Path) -> Iterator[Finding]:
    """Yield the pickles in the files of *directory*, in the order of their names.

    Folders that are not looked into are findings, too.
    """
    unread: list[OSError] = []
    for place, folders, names in os.walk(directory, onerror=unread.append):
        folders.sort()
        for name in sorted(names):
            path = Path(place, name)
            if path.is_file():
                yield from scan_file(path, _relative(path, directory))
        for path in (Path(place, name) for name in folders):
            if path.is_symlink():
                problem = "is a link to a folder, which is not looked into"
                yield Finding(_relative(path, directory), problem=problem)
    for error in unread:
        place = _relative(Path(error.filename or directory), directory)
        yield Finding(place, problem=f"cannot be read: {error.strerror}")


def scan_file(path: Path, name: str = "") -> Iterator[Finding]:
    """Yield the pickles in the file at *path*, whatever it is called.

    :param name: what findings call it; default: the path.
    """
    name = name or str(path)
    try:
        with path.open("rb") as file:
            yield from _scan(file, name, 0)
    except OSError as error:
        yield Finding(name, problem=f"cannot be read: {error.strerror}")


def _scan(file: IO[bytes], place: str, depth: int) -> Iterator[Finding]:
    """Look at a file that can seek."""
    if depth > DEPTH:
        yield Finding(place, problem="is nested too deeply to be looked at")
        return
    head = _head(file)
    if zipfile.is_zipfile(file):
        yield from _guarded(place, lambda: _scan_zip(file, place, depth))
    if _is_tar(head):
        file.seek(0)
        yield from _guarded(place, lambda: _scan_tar(file, place, depth))
    file.seek(0)
    yield from _scan_stream(file, head, place, depth)


def _scan_stream(file: IO[bytes], head: bytes, place: str, depth: int) -> Iterator[Finding]:
    """Look at a file that is read once, from its beginning."""
    if (unpack := unpacking(head)) is not None:
        yield from _scan_packed(unpack, file, place, depth)
    elif head.startswith(LZ4):
        yield Finding(place, problem="is packed with lz4, which cannot be looked into")
    elif head.startswith(NPY):
        yield from _scan_npy(file, place)
    else:
        yield from _scan_pickles(file, place)


def _scan_pickles(file: IO[bytes], place: str) -> Iterator[Finding]:
    """Look at pickles that follow each other; torch writes such files."""
    imports, problem, is_first = [], "", True
    while (walked := walk(file)).count:
        if is_first and not walked.is_pickle:
            return
        imports += walked.imports
        if not walked.is_whole:
            problem = _broken(walked) if is_first or walked.is_pickle else ""
            break
        is_first = False
    if problem or not is_first:
        yield Finding(place, tuple(dict.fromkeys(imports)), problem)


def _broken(walked: Walked) -> str:
    return f"is a pickle that cannot be read to its end, only {walked.count} instructions of it"


def _scan_npy(file: IO[bytes], place: str) -> Iterator[Finding]:
    """Look at an array; one of objects is a header and a pickle."""
    start = file.read(len(NPY) + 2)
    size = int.from_bytes(file.read(2 if start[-2:-1] == b"\x01" else 4), "little")
    header = file.read(min(size, 1 << 20)).decode("latin-1")
    try:
        has_objects = descr_to_dtype(ast.literal_eval(header.strip())["descr"]).hasobject
    except Exception:  # noqa: BLE001 - hostile content
        has_objects = True  # what follows may be a pickle
    if has_objects:
        walked = walk(file)
        yield Finding(
            place, tuple(dict.fromkeys(walked.imports)), "" if walked.is_whole else _broken(walked)
        )


def _scan_zip(file: IO[bytes], place: str, depth: int) -> Iterator[Finding]:
    with zipfile.ZipFile(file) as packed:
        for entry in packed.infolist():  # folders, too: any entry can have content
            inner = f"{place}!{entry.filename}"

            def scan(entry: zipfile.ZipInfo = entry, inner: str = inner) -> Iterator[Finding]:
                with packed.open(entry) as member:
                    yield from _scan_member(member, inner, depth)

            yield from _guarded(inner, scan)


def _scan_tar(file: IO[bytes], place: str, depth: int) -> Iterator[Finding]:
    with tarfile.open(fileobj=file, mode="r:") as packed:
        for entry in packed:
            is_file = entry.isreg() or entry.type not in tarfile.SUPPORTED_TYPES  # as in tarfile
            if is_file and (member := packed.extractfile(entry)):
                inner = f"{place}!{entry.name}"
                yield from _scan_member(member, inner, depth)


def _scan_packed(
    unpack: Callable[[IO[bytes]], IO[bytes]], file: IO[bytes], place: str, depth: int
) -> Iterator[Finding]:
    """Look into a compressed stream; bytes that only begin like one are something else."""
    stream = unpack(file)
    try:
        is_packed = bool(stream.read(1))
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError):
        is_packed = False
    file.seek(0)
    if not is_packed:
        yield from _scan_pickles(file, place)
        return
    yield from _guarded(place, lambda: _scan_member(unpack(file), place, depth))


def _scan_member(member: IO[bytes], place: str, depth: int) -> Iterator[Finding]:
    """Look at a part of a file, which can be read once only."""
    stream = io.BufferedReader(cast("io.RawIOBase", Bounded(member)))
    head = stream.peek(HEAD_BYTES)[:HEAD_BYTES]
    is_archive = head.startswith(ZIP) or _is_tar(head) or unpacking(head) is not None
    if not is_archive:
        yield from _scan_stream(stream, head, place, depth)
        return
    content = stream.read(NESTED_BYTES + 1)
    if len(content) > NESTED_BYTES:
        yield Finding(place, problem="is an archive that is too large to be looked into")
    else:
        yield from _scan(io.BytesIO(content), place, depth + 1)


def _guarded(place: str, scan: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """Yield what *scan* does; what cannot be unpacked is a finding."""
    try:
        yield from scan()
    except Exception as error:  # noqa: BLE001 - hostile content; unpackers raise many errors
        text = " ".join(str(error).split())
        yield Finding(place, problem=f"cannot be unpacked: {type(error).__name__}: {text}")


def _is_tar(head: bytes) -> bool:
    """Whether *head* has the checksum of a tar file; old ones have no other mark."""
    try:
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError):
        return False
    return True


def _relative(path: Path, directory: Path) -> str:
    return path.relative_to(directory).as_posix()


def _head(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read(HEAD_BYTES)
