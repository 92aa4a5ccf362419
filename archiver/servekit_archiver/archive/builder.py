# SPDX-License-Identifier: Apache-2.0
"""Builds an archive from a model directory."""

import hashlib
import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Final

from servekit_archiver.counting import counted
from servekit_archiver.directory.files import list_files, open_file
from servekit_archiver.directory.model_directory import (
    Recognise,
    default_name,
    describe_directory,
    with_lock,
)
from servekit_archiver.directory.model_toml import manifest_from_toml
from servekit_archiver.errors import ArchiveError, refuse_os_errors
from servekit_archiver.limits import DEFAULT_LIMITS, MANIFEST_BYTES
from servekit_archiver.manifest import FileInfo, Manifest
from servekit_archiver.names import MANIFEST
from servekit_archiver.progress import Meter, Progress
from servekit_archiver.zip.writer import ZipWriter

__all__ = ["Built", "build_archive", "draft"]

#: numbers, which deflate hardly shrinks, and which a worker may want to map; and zip files
STORED_SUFFIXES: Final = (
    *(".npy", ".safetensors", ".onnx", ".data", ".bin", ".pt", ".pt2", ".pth", ".joblib"),
    ".whl",
)


@dataclass(frozen=True, slots=True)
class Built:
    """An archive that was just written. ``os.fspath`` gives its path."""

    path: Path
    digest: str  #: SHA-256 of the manifest, and so of everything
    size: int  #: bytes of the archive
    manifest: Manifest

    def __fspath__(self) -> str:
        return str(self.path)


def build_archive(
    directory: str | Path,
    output: str | Path | None = None,
    *,
    force: bool = False,
    progress: Progress | None = None,
    recognise: Recognise | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Built:
    """Pack *directory* into an archive. The same files give the same bytes.

    :param output: default: ``NAME.mar`` here; an existing directory: ``NAME.mar`` in it. It
        may lie within *directory* only if that is where we stand, and as a ``.mar`` file.
    :param force: replace an existing file.
    :param recognise: asked about a directory without service instead of the plugins.
    :param overrides: ``model.toml`` keys that go before those in the file.
    :raises ArchiveError: something is refused; no file is left behind, an old one stays.
    """
    directory = Path(directory)
    table = describe_directory(directory, recognise, overrides)
    names = list_files(directory)
    packed = frozenset(names)
    manifest = manifest_from_toml(table, name=default_name(directory), exists=packed.__contains__)
    manifest = with_lock(manifest, directory, packed)
    path = _output_path(output, manifest.name)
    _require_outside(path, directory)
    with draft(path, force) as file:
        manifest = _write(file, directory, names, manifest, progress)
        size = file.tell()
    return Built(path, hashlib.sha256(manifest.to_json()).hexdigest(), size, manifest)


def _write(
    file: BinaryIO,
    directory: Path,
    names: list[str],
    manifest: Manifest,
    progress: Progress | None,
) -> Manifest:
    """Write the archive and return its manifest, which comes last: it lists what was written."""
    writer = ZipWriter(file)
    meter = Meter(_total_size(directory, names), progress)
    files: dict[str, FileInfo] = {}
    for name in names:
        source, size = open_file(directory / name)
        with source, refuse_os_errors(directory / name):
            stored = name.lower().endswith(STORED_SUFFIXES)
            digest = writer.add(name, source, size, stored=stored, seen=meter.add)
        files[name] = FileInfo(size=size, sha256=digest)
    manifest = replace(manifest, files=files)
    content = manifest.to_json()
    if len(content) > MANIFEST_BYTES:
        raise ArchiveError(
            f"{directory}: its manifest is {len(content)} bytes, limit {MANIFEST_BYTES}"
        )
    source = io.BytesIO(content)
    writer.add(MANIFEST, source, len(content), stored=False, seen=lambda _: None)
    writer.finish()
    return manifest


def _total_size(directory: Path, names: list[str]) -> int:
    limits, total = DEFAULT_LIMITS, 0
    for name in names:
        with refuse_os_errors(directory / name):
            size = (directory / name).lstat().st_size
        if size > limits.file_bytes:
            raise ArchiveError(
                f"{directory / name}: is {counted(size, 'byte')}, limit {limits.file_bytes}"
            )
        total += size
    if total > limits.total_bytes:
        raise ArchiveError(
            f"{directory}: holds {counted(total, 'byte')}, limit {limits.total_bytes}"
        )
    return total


def _output_path(output: str | Path | None, name: str) -> Path:
    path = Path(output if output is not None else ".")
    return path / f"{name}.mar" if path.is_dir() else path


def _require_outside(path: Path, directory: Path) -> None:
    """Refuse what is hard to find again; ``build .`` leaves its ``.mar`` in plain sight."""
    model = directory.resolve()
    stands_in_it = Path.cwd().is_relative_to(model) and path.suffix == ".mar"
    if path.parent.resolve().is_relative_to(model) and not stands_in_it:
        raise ArchiveError(
            f"{path}: is inside {directory}, the model directory that the archive is made of; "
            "write it elsewhere (-o)"
        )


@contextmanager
def draft(path: Path, force: bool) -> Iterator[BinaryIO]:
    """Yield a file that becomes *path* if all goes well, and nothing if not."""
    _require_free(path, force)
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with refuse_os_errors(path, names_file=False):
        try:
            with draft.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            _require_free(path, force)
            draft.replace(path)
        finally:
            with suppress(FileNotFoundError):
                draft.unlink()


def _require_free(path: Path, force: bool) -> None:
    if path.is_symlink() or path.exists():
        if not path.is_file():
            raise ArchiveError(f"{path}: is not a regular file")
        if not force:
            raise ArchiveError(f"{path}: already exists (--force replaces it)")
