# SPDX-License-Identifier: Apache-2.0
"""Plugins that open URLs, and plugins that decide what may be served. Runs in: prepare child.

Plugins are imported only to open a URL, or if one of them is named in the group
``servekit.archives``: a prepare child starts for every model, and importing plugins takes longer
than everything else that it does for a small one.
"""

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from servekit.errors import PluginError, StartupError
from servekit.extension.archives import ArchiveInfo, Refused
from servekit.settings.values import shown_url

__all__ = ["ArchivePlugins"]

GROUP = "servekit.archives"  #: entry points of plugins that implement hooks for archives


class ArchivePlugins:
    """Imports the plugins when they are needed."""

    def __init__(self, required: Sequence[str] = ()) -> None:
        """Import nothing yet. *required*: names of plugins that must be usable."""
        self._required = required

    @cached_property
    def _hooks(self) -> Any:
        from importlib.metadata import entry_points

        from servekit.plugins import create_plugin_manager

        manager = create_plugin_manager(required=self._required)
        errors = {plugin.name: plugin.error for plugin in manager.installed}
        for name in sorted(point.name for point in entry_points(group=GROUP)):
            if name not in errors:
                raise PluginError(f"plugin {name}: is in the group {GROUP}, but not in servekit")
            if errors[name]:
                sys.stderr.write(f"plugin {name} is not asked: {errors[name]}\n")
        return manager.hook

    def open(self, url: str, scratch: Path, progress: Callable[[int, int], None]) -> Path:
        """Return the archive or directory that a plugin provides for *url*.

        :param scratch: is created for the files of the plugin.
        :raises StartupError: no plugin opens such URLs, or the one that does failed.
        """
        shown, scheme = shown_url(url), url.partition(":")[0]
        scratch.mkdir(mode=0o700, parents=True)
        try:
            path = self._hooks.open_archive(url=url, scratch=scratch, progress=progress)
        except (StartupError, OSError) as error:
            raise StartupError(f"{shown}: {error}") from error
        except Exception as error:
            traceback.print_exc()
            raise StartupError(f"{shown}: {type(error).__name__}: {error}") from error
        if path is None:
            raise StartupError(f"{shown}: no installed plugin opens {scheme}:// archives")
        return Path(path)

    def require_acceptance(self, archive: ArchiveInfo) -> None:
        """Pass if no plugin refuses *archive*.

        :raises StartupError: names the reasons; a plugin that fails refuses it too.
        """
        if not self._required and not may_have_archive_plugins(sys.path):
            return
        try:
            answers = self._hooks.accept_archive(archive=archive)
        except StartupError:
            raise
        except Exception as error:
            traceback.print_exc()
            raise StartupError(f"accept_archive failed: {type(error).__name__}: {error}") from error
        if reasons := [_reason(answer) for answer in answers]:
            raise StartupError(f"refused: {'; '.join(reasons)}")


def _reason(answer: object) -> str:
    return answer.reason if isinstance(answer, Refused) else f"accept_archive returned {answer!r}"


def may_have_archive_plugins(path: Sequence[str]) -> bool:
    """Return whether a distribution on *path* names entry points in ``servekit.archives``.

    Reads the same files as ``importlib.metadata``, in a twentieth of the time. The answer is yes if
    distributions may be in a zip file.
    """
    section = f"[{GROUP}]".encode()
    for place in path:
        try:
            names = os.listdir(place or ".")  # noqa: PTH208 - only names are wanted
        except FileNotFoundError:
            continue
        except NotADirectoryError:  # a zip file
            return True
        for name in names:
            if name.endswith((".dist-info", ".egg-info")):
                try:
                    text = Path(place, name, "entry_points.txt").read_bytes()
                except OSError:
                    continue
                if section in text:
                    return True
    return False
