# SPDX-License-Identifier: Apache-2.0
"""The keys that the operator has given in the settings, offered through the hook for keys."""

from collections.abc import Iterable

from servekit.hookspecs import hookimpl
from servekit.settings.archive_keys import key_id as id_of

__all__ = ["GivenKeys"]


class GivenKeys:
    """A plugin that knows the keys of one preparation. Runs in: prepare child."""

    def __init__(self, keys: Iterable[bytes]) -> None:
        self._keys = {id_of(key): key for key in keys}

    @hookimpl
    def find_archive_key(self, key_id: str) -> bytes | None:
        """Return the key if it was given."""
        return self._keys.get(key_id)
