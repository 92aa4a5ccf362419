# SPDX-License-Identifier: Apache-2.0
"""Archives on their way through Ray's object store: chunks, and a directory at the other end."""

import fcntl
import hashlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from servekit.errors import StartupError
from servekit_ray.state import ShippedModel

__all__ = ["ArchiveDirectory", "digest_of", "get_chunks", "put_chunks"]

CHUNK_BYTES: Final = 32 << 20
PREFIX: Final = "servekit-ray-"
LOCK: Final = "lock"  #: a file in each directory


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def put_chunks(path: Path) -> list[Any]:
    """Put a file into the object store, and return references to its chunks.

    They exist for as long as the process that called this, and somebody, has them.
    """
    import ray

    return [ray.put(chunk) for chunk in _chunks(path)]


def get_chunks(references: Iterable[Any]) -> Iterator[bytes]:
    """Return the chunks one by one; each blocks until it has arrived."""
    import ray

    return (ray.get(reference) for reference in references)


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


class ArchiveDirectory:
    """The archives of one actor: a directory that is removed with it, or by the next actor.

    A lock tells which directories still belong to somebody: the kernel drops it with the process.
    """

    def __init__(self) -> None:
        """Create the directory, and remove those that killed actors have left."""
        remove_stale(Path(tempfile.gettempdir()))
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        draft = self.path / "lock.new"
        self._lock = draft.open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        draft.rename(self.path / LOCK)  # nobody finds it before it is held

    def find(self, model: ShippedModel) -> Path | None:
        """Return the path of an archive, or ``None`` if it has not arrived."""
        path = self._place(model)
        return path if path.exists() else None

    def receive(self, model: ShippedModel, chunks: Iterable[bytes]) -> Path:
        """Write the chunks of an archive, and return its path.

        :raises StartupError: the digest is not that of the archive.
        """
        path = self._place(model)
        path.parent.mkdir(exist_ok=True)
        partial, found = path.with_name(f"{path.name}.part"), hashlib.sha256()
        with partial.open("wb") as file:
            for chunk in chunks:
                found.update(chunk)
                file.write(chunk)
        if found.hexdigest() != model.digest:
            partial.unlink()
            raise StartupError(
                f"{model.file}: arrived with SHA-256 {found.hexdigest()}, not {model.digest}"
            )
        partial.replace(path)
        return path

    def remove(self) -> None:
        """Remove the directory."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()

    def _place(self, model: ShippedModel) -> Path:
        return self.path / model.digest[:16] / model.file


def remove_stale(base: Path) -> None:
    """Remove the directories in *base* whose process has ended."""
    for path in base.glob(f"{PREFIX}*"):
        try:
            with (path / LOCK).open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
        except OSError:  # somebody has it or is making it, or it is another user's
            continue
