# SPDX-License-Identifier: Apache-2.0
"""The observer as plugins see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    from servekit.settings import Settings

__all__ = ["Observer"]


class Observer(Protocol):
    """The process that notifies plugins. ``observer_started`` gets it."""

    @property
    def settings(self) -> Settings:
        """The settings; they never change while the process lives."""

    @property
    def run_directory(self) -> Path:
        """Directory that all processes of this server share, and nobody else can read."""

    def plugin_settings(self, plugin: str) -> Any:
        """Return the settings of *plugin*: an instance of what ``register_settings`` returned.

        :param plugin: the name of its entry point.
        """
