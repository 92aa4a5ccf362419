# SPDX-License-Identifier: Apache-2.0
"""Plugins that open URLs, and plugins that decide what may be served. Runs in: prepare child.

A prepare child starts for every model, and importing all plugins takes longer than everything else
that it does for a small one. That is why they are imported only to open a URL. Those that implement
``accept_archive`` are named in a second group of entry points, which can be looked up quickly.
"""

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from servekit.errors import ArchiveRefused, PluginError, StartupError
from servekit.extension.archives import ACCEPT_GROUP, ArchiveInfo, Kept, Policy, Refused
from servekit.settings.values import shown_url

if TYPE_CHECKING:
    from servekit_archiver.plugins import HookManager

__all__ = ["open_url", "require_acceptance"]


def open_url(
    url: str, scratch: Path, progress: Callable[[int, int], None], required: Sequence[str]
) -> Path:
    """Return the archive or directory that a plugin provides for *url*.

    :param scratch: is created for the files of the plugin.
    :param required: names of plugins that must be usable.
    :raises StartupError: no plugin opens such URLs, or the one that does failed.
    """
    from servekit.plugins import create_plugin_manager

    shown, scheme = shown_url(url), url.partition(":")[0]
    hooks = create_plugin_manager(required=required).hook
    scratch.mkdir(mode=0o700, parents=True)
    try:
        path = hooks.open_archive(url=url, scratch=scratch, progress=progress)
    except (StartupError, OSError) as error:
        raise StartupError(f"{shown}: {error}") from error
    except Exception as error:
        traceback.print_exc()
        raise StartupError(f"{shown}: {type(error).__name__}: {error}") from error
    if path is None:
        raise StartupError(f"{shown}: no installed plugin opens {scheme}:// archives")
    return Path(path)


def require_acceptance(archive: ArchiveInfo, policy: Policy, required: Sequence[str]) -> None:
    """Check that no plugin refuses *archive*, and that it keeps every rule of *policy*.

    :param required: names of plugins that must be usable.
    :raises ArchiveRefused: names the reasons; a plugin that fails refuses it too.
    """
    if not required and not policy.rules and not may_have_judges(sys.path):
        return
    hooks = judges(required).hook
    try:
        answers = hooks.accept_archive(archive=archive, policy=policy)
    except Exception as error:
        traceback.print_exc()
        raise ArchiveRefused(f"accept_archive failed: {type(error).__name__}: {error}") from error
    refusals = [answer for answer in answers if not isinstance(answer, Kept)]
    kept = {rule for answer in answers if isinstance(answer, Kept) for rule in answer.rules}
    broken = {answer.rule for answer in refusals if isinstance(answer, Refused)}
    reasons = [_reason(answer) for answer in refusals]
    unknown = [rule for rule in policy.rules if rule not in kept | broken]
    reasons += [f"no installed plugin knows the rule {rule}" for rule in unknown]
    if reasons:
        raise ArchiveRefused(f"refused: {'; '.join(reasons)}")


def _reason(answer: object) -> str:
    return str(answer) if isinstance(answer, Refused) else f"accept_archive returned {answer!r}"


def judges(required: Sequence[str]) -> "HookManager":
    """Import the plugins that implement ``accept_archive``, and no others.

    :raises PluginError: one of *required* is not installed, or is a judge and broken.
    """
    from servekit_archiver.plugins import HookManager

    from servekit import hookspecs

    manager = HookManager(hookspecs)
    manager.discover(ACCEPT_GROUP)
    groups = (ACCEPT_GROUP, "servekit")
    installed = {point.name for group in groups for point in manager.points.select(group=group)}
    if missing := [name for name in required if name not in installed]:
        raise PluginError(f"plugin {missing[0]} is required and not installed")
    for plugin in manager.installed:
        if plugin.error and plugin.name in required:
            raise PluginError(f"plugin {plugin.name} is required and broken: {plugin.error}")
        if plugin.error:
            sys.stderr.write(f"plugin {plugin.name} is not asked: {plugin.error}\n")
    return manager


def may_have_judges(path: Sequence[str]) -> bool:
    """Return whether a distribution on *path* names entry points in ``ACCEPT_GROUP``.

    Reads the same files as ``importlib.metadata``, in a twentieth of the time. The answer is yes if
    distributions may be in a zip file.
    """
    section = f"[{ACCEPT_GROUP}]".encode()
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
