# SPDX-License-Identifier: Apache-2.0
"""The file that keeps what was changed at run time for a server that starts later."""

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from servekit.errors import StartupError
from servekit.supervisor.models.saved_models import ModelStart, SavedModel
from servekit.supervisor.reporting.journal import Journal, Notice

__all__ = ["StateFile", "read_state"]

FORMAT = 1


class SavedState(msgspec.Struct, kw_only=True):
    """The content of the file."""

    format: int
    models: list[SavedModel]


class StateFile:
    """Is read at the start, and replaced at every change."""

    def __init__(self, path: str, journal: Journal) -> None:
        """Read the file at *path*, if there is one; "" keeps nothing.

        :raises StartupError: it cannot be read.
        """
        self._path = path
        self._journal = journal
        self.saved = read_state(path)

    def check_writable(self) -> None:
        """Check that changes can be kept.

        :raises StartupError: the file cannot be made, or replaced, in its directory.
        """
        directory = Path(self._path).parent
        if not directory.is_dir():
            raise StartupError(f"state: {directory}: no such directory")
        if not os.access(directory, os.W_OK | os.X_OK):
            raise StartupError(f"state: {directory}: not writable")

    def tell(self, starts: Sequence[ModelStart]) -> None:
        """Say what it has changed of the configuration, and what of it counts no longer."""
        laid = [start.saved for start in starts if start.saved is not None]
        for saved in self.saved:
            if saved in laid:
                text = f"restored run-time changes: {_described(saved)} ({self._path})"
                level = "info"
            elif saved.default is None:
                text = f"was unloaded at run time, and is not loaded ({self._path})"
                level = "warning"
            else:
                text = f"the configuration has changed since; ignoring {self._path} for this model"
                level = "warning"
            self._journal.notice(Notice("state_read", saved.name, text, level))

    def save(self, models: Sequence[SavedModel]) -> None:
        """Replace the file."""
        if not self._path:
            return
        path = Path(self._path)
        new = path.with_name(f"{path.name}.new")
        content = msgspec.json.format(
            msgspec.json.encode(SavedState(format=FORMAT, models=[*models]))
        )
        try:
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:  # a URL in it may hold a secret
                file.write(content)
                file.flush()
                os.fsync(descriptor)
            new.replace(path)
        except OSError as error:
            text = f"{path} cannot be written: {error.strerror}; the change will be lost on restart"
            self._journal.notice(Notice("state_not_written", "servekit", text, "error"))


def read_state(path: str) -> list[SavedModel]:
    """Return the models of the file at *path*, if there is one; "" has none.

    :raises StartupError: it cannot be read.
    """
    if not path:
        return []
    try:
        state = msgspec.json.decode(Path(path).read_bytes(), type=SavedState)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StartupError(f"state: {path}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise StartupError(f"state: {path}: {error}") from error
    if state.format != FORMAT:
        raise StartupError(f"state: {path}: format {state.format} is not {FORMAT}")
    return state.models


def _described(saved: SavedModel) -> str:
    """Return what *saved* says, for the log."""
    traffic = saved.traffic
    versions = [each for each in [saved.default, *saved.others] if each is not None]
    parts = [" and ".join(f"{each.version} from {each.source.shown}" for each in versions)]
    for what, table in (
        ("replicas", {stage or "all": str(count) for stage, count in saved.scaled.items()}),
        ("aliases", traffic.aliases),
        ("weights", traffic.weights),
    ):
        if table:
            parts.append(f"{what} " + ", ".join(f"{key} = {value}" for key, value in table.items()))
    if traffic.mirror:
        parts.append(f"mirror {traffic.mirror}")
    return "; ".join(parts)
