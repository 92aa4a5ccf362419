# SPDX-License-Identifier: Apache-2.0
"""Looks again and again at a directory of archives. Runs in: the store child."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import servekit_archiver
from servekit_archiver import ArchiveError, Manifest
from servekit_archiver.zip.format import END, MAX16

from servekit.supervisor.preparing.stamping import stamp
from servekit.supervisor.store.messages import StoredModel, StoreRemark, newest

__all__ = ["StoreDirectory", "age", "read_manifest"]

PART = re.compile(r"[0-9]+|[a-z]+")


class StoreDirectory:
    """Knows the files by several looks.

    A file is read once two looks have found it unchanged. If it cannot be read, what it was before
    still counts.
    """

    def __init__(self, directory: Path) -> None:
        """Begin as if the directory were empty."""
        self._directory = directory
        self._stamps: dict[Path, str] = {}  #: at the last look
        self._changing: set[Path] = set()
        self._read: dict[Path, str] = {}  #: stamps of what was read, whether that was possible
        self._known: dict[Path, StoredModel] = {}
        self._remarks: dict[Path, str] = {}  #: the last one of each file

    def look(self) -> list[StoreRemark]:
        """Look once; return what is new to say."""
        try:
            found = {path: stamp(path) for path in self._candidates()}
        except (OSError, ArchiveError) as error:
            text = f"cannot be read: {error}; what is served stays"
            return [*self._remark(self._directory, text)]
        self._remarks.pop(self._directory, None)
        self._changing &= found.keys()
        for table in (self._stamps, self._read, self._known, self._remarks):
            for path in table.keys() - found.keys():
                del table[path]
        remarks = [remark for path in found for remark in self._follow(path, found[path])]
        self._stamps = found
        return [*remarks, *self._outdone()]

    @property
    def models(self) -> list[StoredModel]:
        """The models that can be read, the oldest of each name first."""
        return sorted(self._known.values(), key=age)

    def _candidates(self) -> Iterator[Path]:
        for path in sorted(self._directory.iterdir()):
            if path.name.startswith("."):
                continue
            if path.suffix == ".mar" or is_model_directory(path):
                yield path

    def _follow(self, path: Path, now: str) -> Iterator[StoreRemark]:
        """Read *path* if it has changed and is calm."""
        if self._read.get(path) == now:
            return
        if not is_text(path):
            self._read[path] = now
            yield from self._remark(path, "changes nothing: its name is not UTF-8")
            return
        if self._stamps.get(path) != now:
            if path in self._changing:
                yield from self._remark(path, "is still being written; waits until it is complete")
            self._changing.add(path)
            return
        self._changing.discard(path)
        if path.is_file() and not has_end(path):
            yield from self._remark(path, "has no end of a zip file; waits until it is complete")
            return
        self._read[path] = now
        try:
            manifest, modified_ns = read_manifest(path), path.stat().st_mtime_ns
        except (OSError, ArchiveError) as error:
            reason = "; ".join(str(error).removeprefix(f"{path}: ").splitlines())
            yield from self._remark(path, f"changes nothing: {reason}")
        else:
            self._remarks.pop(path, None)
            facts = manifest.name, manifest.version, str(path), now, modified_ns
            self._known[path] = StoredModel(*facts)

    def _outdone(self) -> Iterator[StoreRemark]:
        """Say which archives wait because there is a newer one of the name."""
        winners = {model.name.casefold(): model for model in newest(self.models)}
        for path, model in self._known.items():
            winner = winners[model.name.casefold()]
            if winner is not model:
                text = f"is outdated: {Path(winner.path).name} is newer"
                yield from self._remark(path, text, "info")
            elif self._remarks.get(path, "").startswith("is outdated"):
                del self._remarks[path]

    def _remark(self, path: Path, text: str, level: str = "warning") -> Iterator[StoreRemark]:
        """Yield the remark unless it is the last one that was made of *path*.

        Both reasons to wait are one remark.
        """
        last = self._remarks.get(path, "")
        if last != text and not (is_waiting(text) and is_waiting(last)):
            shown = os.fsencode(path).decode(errors="backslashreplace")
            yield StoreRemark(shown, text, level)
        self._remarks[path] = text


def is_model_directory(path: Path) -> bool:
    """Whether *path* has a ``model.toml``, as far as we may look."""
    try:
        return (path / "model.toml").is_file()
    except OSError:
        return False


def is_text(path: Path) -> bool:
    """Whether *path* can be sent in a message: file names are bytes, and may be no text."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def is_waiting(text: str) -> bool:
    """Return whether a remark says that a file is not complete."""
    return text.endswith("waits until it is complete")


def has_end(path: Path) -> bool:
    """Return whether *path* has the end record of a zip file, a comment after it or not."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - END.size - MAX16))
            return END.signature in file.read()
    except OSError:  # it has been removed
        return False


def read_manifest(path: Path) -> Manifest:
    """Return the manifest of an archive or model directory.

    :raises ArchiveError: it is refused.
    """
    if path.is_dir():
        return servekit_archiver.load_directory(path)
    with servekit_archiver.open_archive(path) as archive:
        return archive.manifest


def age(model: StoredModel) -> tuple[object, ...]:
    """Return what sorts models of one name: the version, then when it was written.

    Numbers are compared as numbers, and ``2.0rc1`` is older than ``2.0``.
    """
    parts = PART.findall(model.version.lower())
    numbers = [(1, int(part), "") if part.isdigit() else (-1, 0, part) for part in parts]
    return [*numbers, (0, 0, "")], model.modified_ns, model.path
