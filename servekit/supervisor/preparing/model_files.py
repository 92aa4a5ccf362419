# SPDX-License-Identifier: Apache-2.0
"""The files of one version of a model, kept as long as it may be served."""

import os
import shutil
from pathlib import Path
from threading import Thread

from servekit.supervisor.preparing.messages import PreparedModel

__all__ = ["FilesRemoved", "ModelFiles", "remove_in_background"]


class FilesRemoved(Exception):
    """The files were removed from the cache after they had been unpacked."""


class ModelFiles:
    """The files of one version; other servers may use the same files of the cache."""

    def __init__(self, prepared: PreparedModel) -> None:
        """Hold the files if they are in the cache; a model directory of the operator is not ours.

        :raises FilesRemoved: they are gone.
        """
        self._directory = Path(prepared.directory)
        self._scratch = prepared.scratch
        self._held: int | None = None
        if prepared.digest and self._directory.name == prepared.digest:
            from servekit_archiver.cache.holding import hold  # not every supervisor needs it

            self._held = hold(self._directory)
            if self._held is None:
                raise FilesRemoved

    def release(self) -> None:
        """Let others remove them, and remove those that a plugin provided for this version."""
        if self._held is not None:
            os.close(self._held)
            self._held = None
        if self._scratch:
            remove_in_background(Path(self._scratch))

    def discard(self) -> None:
        """Remove them, unless another process holds them."""
        if self._held is not None:
            from servekit_archiver.cache.holding import discard

            self.release()
            Thread(target=discard, args=(self._directory,), daemon=True).start()


def remove_in_background(directory: Path) -> None:
    """Remove *directory* in a thread, since many files take long."""
    Thread(target=shutil.rmtree, args=(directory,), kwargs={"ignore_errors": True}).start()
