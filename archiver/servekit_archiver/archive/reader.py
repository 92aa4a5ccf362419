# SPDX-License-Identifier: Apache-2.0
"""Opens an archive: every rule but the files' content is checked before anything is handed out."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Self

from servekit_archiver.archive.placing import merge, require_space, write_new_file
from servekit_archiver.counting import counted
from servekit_archiver.errors import ArchiveError, ManifestError, refuse_os_errors
from servekit_archiver.limits import DEFAULT_LIMITS, MANIFEST_BYTES, SIGNATURE_BYTES, Limits
from servekit_archiver.manifest import Manifest
from servekit_archiver.names import MANIFEST, SIGNATURE
from servekit_archiver.progress import Meter, Progress
from servekit_archiver.scratch import scratch_directory
from servekit_archiver.zip.content import copy_content, read_content
from servekit_archiver.zip.format import ZipEntry
from servekit_archiver.zip.listing import read_entries
from servekit_archiver.zip.source import Source

__all__ = ["Archive", "open_archive"]


def open_archive(path: str | Path, *, limits: Limits = DEFAULT_LIMITS) -> "Archive":
    """Open the archive at *path*; use it as a context manager.

    :raises ArchiveError: it is refused; the entry is named.
    :raises ManifestError: its manifest is; every problem is listed.
    """
    source = Source(Path(path))
    try:
        return Archive(source, limits)
    except BaseException:
        source.close()
        raise


class Archive:
    """An open archive whose list of entries and manifest are sound.

    The content of its files is checked when it is read: by ``verify`` and ``extract``.
    """

    def __init__(self, source: Source, limits: Limits) -> None:
        self._source = source
        self.path = source.path
        entries = read_entries(source, limits)
        content = _read_manifest(source, entries)
        self.manifest_bytes = content
        self.manifest = _parse(source, content)
        self.digest = hashlib.sha256(content).hexdigest()  #: names the content of every file
        entries.pop(MANIFEST)
        self.signature_entry = entries.pop(SIGNATURE, None)
        _require_listed(source, entries, self.manifest)
        self.entries = MappingProxyType(entries)  #: the files by name, without the manifest
        self.size = source.size  #: bytes of the archive itself
        self.unpacked_size = sum(entry.size for entry in entries.values())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()

    def identity(self) -> str:
        """Return a string that changes whenever the archive file may have changed."""
        return self._source.identity()

    def read(self, name: str) -> bytes:
        """Return the content of a file that is not longer than a manifest may be.

        :raises ArchiveError: it is longer, or differs from the manifest.
        """
        if self.entries[name].size > MANIFEST_BYTES:
            reason = f"is {self.entries[name].size} bytes, limit {MANIFEST_BYTES}"
            raise self._source.refuse(reason, name)
        pieces: list[bytes] = []
        self._copy(name, pieces.append)
        return b"".join(pieces)

    def read_signature(self) -> bytes:
        """Return the content of ``MAR-INF/model.sig``; empty if there is none.

        :raises ArchiveError: it is too large, or damaged.
        """
        if self.signature_entry is None:
            return b""
        if self.signature_entry.size > SIGNATURE_BYTES:
            reason = f"is {self.signature_entry.size} bytes, limit {SIGNATURE_BYTES}"
            raise self._source.refuse(reason, SIGNATURE)
        return read_content(self._source, self.signature_entry)

    def verify(self, progress: Progress | None = None) -> None:
        """Read every file and compare it with the manifest.

        :raises ArchiveError: a file differs; the entry is named.
        """
        meter = Meter(self.unpacked_size, progress)
        for name in self.entries:
            self._copy(name, lambda piece: meter.add(len(piece)))

    def write_files(self, directory: Path, mode: int | None, progress: Progress | None) -> None:
        """Write every file into *directory*, which must be new and out of others' reach.

        :param mode: permissions of the files; ``None``: what the umask leaves.
        :raises ArchiveError: a file differs from the manifest, or cannot be written.
        """
        require_space(directory, self.unpacked_size)
        meter = Meter(self.unpacked_size, progress)
        for name in self.entries:
            with refuse_os_errors(f"{self.path}: entry {name!r}", names_file=False):
                write_new_file(directory / name, mode, self._filler(name, meter))

    def extract(
        self,
        directory: str | Path,
        progress: Progress | None = None,
        *,
        force: bool = False,
        with_manifest: bool = False,
    ) -> None:
        """Unpack the model directory that the archive was built from; all of it or nothing.

        :param force: write into a directory that has files, over those of the same name.
        :param with_manifest: write ``MAR-INF/MANIFEST.json`` too, by which ``load_directory``
            knows the model, whatever built the archive.
        :raises ArchiveError: *directory* has files, or the archive is not sound.
        """
        target = Path(directory)
        with refuse_os_errors(target, names_file=False):
            is_new = not target.exists()
            if not is_new and not target.is_dir():
                raise ArchiveError(f"{target}: is not a directory")
            if not is_new and not force and any(target.iterdir()):
                raise ArchiveError(f"{target}: is not an empty directory (--force writes into it)")
            target.mkdir(parents=True, exist_ok=True)
            try:
                with scratch_directory(target) as scratch:
                    names = [*self.entries, *(self._write_own(scratch) if with_manifest else [])]
                    self.write_files(scratch, None, progress)
                    merge(scratch, names, target)
            except BaseException:
                if is_new:
                    target.rmdir()
                raise

    def _write_own(self, directory: Path) -> list[str]:
        """Write manifest and signature; return their names."""
        own = {MANIFEST: self.manifest_bytes}
        if self.signature_entry:
            own[SIGNATURE] = self.read_signature()
        for name, content in own.items():
            (directory / name).parent.mkdir(exist_ok=True)
            (directory / name).write_bytes(content)
        return list(own)

    def _filler(self, name: str, meter: Meter) -> Callable[[Callable[[bytes], object]], str]:
        def fill(write: Callable[[bytes], object]) -> str:
            def write_piece(piece: bytes) -> None:
                write(piece)
                meter.add(len(piece))

            return self._copy(name, write_piece)

        return fill

    def _copy(self, name: str, write: Callable[[bytes], object]) -> str:
        digest = copy_content(self._source, self.entries[name], write)
        listed = self.manifest.files[name].sha256
        if digest != listed:
            raise self._source.refuse(f"its SHA-256 is {digest}, not {listed} as listed", name)
        return digest


def _read_manifest(source: Source, entries: dict[str, ZipEntry]) -> bytes:
    entry = entries.get(MANIFEST)
    if entry is None:
        raise source.refuse(f"is not a model archive: it has no {MANIFEST}")
    if entry.size > MANIFEST_BYTES:
        raise source.refuse(f"is {entry.size} bytes, limit {MANIFEST_BYTES}", MANIFEST)
    return read_content(source, entry)


def _parse(source: Source, content: bytes) -> Manifest:
    try:
        return Manifest.from_json(content)
    except ManifestError as error:
        raise ManifestError(error.problems, f"{source.path}: {error.source}") from None


def _require_listed(source: Source, entries: dict[str, ZipEntry], manifest: Manifest) -> None:
    for name, entry in entries.items():
        if name not in manifest.files:
            raise source.refuse("is not listed in the manifest", name)
        if entry.size != (listed := manifest.files[name].size):
            raise source.refuse(f"is {counted(entry.size, 'byte')}, not {listed} as listed", name)
    for name in manifest.files:
        if name not in entries:
            raise source.refuse("is listed in the manifest but missing", name)
