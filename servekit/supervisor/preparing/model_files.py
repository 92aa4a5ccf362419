# SPDX-License-Identifier: Apache-2.0
"""The files of one version of a model: held in the cache as long as it may be served."""

import os
from pathlib import Path
from threading import Thread

from servekit.supervisor.preparing.messages import PreparedModel

__all__ = ["FilesRemoved", "ModelFiles"]


class FilesRemoved(Exception):
    """The files were removed between their unpacking and our looking."""


class ModelFiles:
    """What a version is loaded from; other servers may use the same."""

    def __init__(self, prepared: PreparedModel) -> None:
        """Hold it, if it is in the cache; a directory that is served as it is is not ours.

        :raises FilesRemoved: it is gone.
        """
        self._directory = Path(prepared.directory)
        self._held: int | None = None
        if prepared.digest and self._directory.name == prepared.digest:
            from servekit_archiver.cache.holding import hold  # which not every supervisor needs

            self._held = hold(self._directory)
            if self._held is None:
                raise FilesRemoved

    def release(self) -> None:
        """Let others remove it."""
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def discard(self) -> None:
        """Remove it, unless somebody else holds it. A thread does it, since it may take long."""
        if self._held is not None:
            from servekit_archiver.cache.holding import discard

            self.release()
            Thread(target=discard, args=(self._directory,), daemon=True).start()
