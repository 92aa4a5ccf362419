# SPDX-License-Identifier: Apache-2.0
"""When each version of each model was used last."""

from collections.abc import Callable, Mapping
from time import monotonic

from servekit.ipc.model_counters import Activity
from servekit.supervisor.models.model_version import ModelVersion

__all__ = ["Uses"]

Key = tuple[str, str]  #: name and version


class Uses:
    """Reads what the front-ends count, and remembers when it changed."""

    def __init__(self, read: Callable[[], Mapping[Key, Activity]]) -> None:
        """Begin without a record; *read* returns the activity of all versions."""
        self._read = read
        self._responses: dict[Key, int] = {}
        self._used_at: dict[Key, float] = {}
        self._busy: set[Key] = set()

    def look(self) -> None:
        """Note which versions have been used since the last look."""
        found, now = self._read(), monotonic()
        self._busy = {key for key, activity in found.items() if activity.in_progress}
        for key, activity in found.items():
            if key in self._busy or activity.responses != self._responses.get(key):
                self._used_at[key] = now
            self._responses[key] = activity.responses

    def touch(self, version: ModelVersion) -> None:
        """Count *version* as used now."""
        self._used_at[key_of(version)] = monotonic()

    def is_busy(self, version: ModelVersion) -> bool:
        """Whether requests wait for *version*, or its workers have some."""
        return key_of(version) in self._busy

    def idle_s(self, version: ModelVersion) -> float:
        """Return the time since *version* was used; since the first question if it never was."""
        now = monotonic()
        return now - self._used_at.setdefault(key_of(version), now)


def key_of(version: ModelVersion) -> Key:
    return version.prepared.name, version.version
