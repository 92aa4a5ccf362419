# SPDX-License-Identifier: Apache-2.0
"""The observer as plugins see it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import Struct

from servekit.settings import Settings

__all__ = ["ObserverView"]


@dataclass(frozen=True, slots=True)
class ObserverView:
    """See ``servekit.extension.Observer``."""

    settings: Settings
    run_directory: Path
    own_settings: Mapping[str, Struct]  #: by plugin

    def plugin_settings(self, plugin: str) -> Any:
        """Return the settings of *plugin*."""
        return self.own_settings[plugin]
