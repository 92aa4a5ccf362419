# SPDX-License-Identifier: Apache-2.0
"""The files of one version of a model, kept as long as it may be served."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

from servekit.supervisor.preparing.messages import PreparedModel

__all__ = ["FilesRemoved", "ModelFiles", "remove_in_background"]


class FilesRemoved(Exception):
    """Files were removed from the cache after they had been put there for the model."""


class ModelFiles:
    """The files of one version; other servers may use the same files of the cache."""

    def __init__(self, prepared: PreparedModel) -> None:
        """Hold what is in the cache: its files, its environment and its assets.

        A model directory of the operator is not ours.

        :raises FilesRemoved: some of it is gone.
        """
        self._directory = Path(prepared.directory)
        self._scratch = prepared.scratch
        self._is_cached = bool(prepared.digest) and self._directory.name == prepared.digest
        self._held: list[int] = []
        for directory in self._in_cache(prepared):
            from servekit_archiver.cache.holding import hold  # not every supervisor needs it

            held = hold(directory)
            if held is None:
                self._let_go()
                raise FilesRemoved
            self._held.append(held)

    def _in_cache(self, prepared: PreparedModel) -> Iterator[Path]:
        if self._is_cached:
            yield self._directory
        if prepared.environment:
            yield Path(prepared.environment)
        yield from {Path(path).parent for path in prepared.assets.values()}

    def _let_go(self) -> None:
        while self._held:
            os.close(self._held.pop())

    def release(self) -> None:
        """Let others remove them, and remove those that a plugin provided for this version."""
        self._let_go()
        if self._scratch:
            remove_in_background(Path(self._scratch))

    def discard(self) -> None:
        """Remove the unpacked archive, unless another process holds it."""
        self.release()
        if self._is_cached:
            from servekit_archiver.cache.holding import discard

            Thread(target=discard, args=(self._directory,), daemon=True).start()


def remove_in_background(directory: Path) -> None:
    """Remove *directory* in a thread, since many files take long."""
    Thread(target=shutil.rmtree, args=(directory,), kwargs={"ignore_errors": True}).start()
