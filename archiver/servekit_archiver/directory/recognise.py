# SPDX-License-Identifier: Apache-2.0
"""Asks the installed plugins whether they know a directory. Imported only when one must be asked.

A plugin that does not import is named in the error, if nothing else recognises the directory.
"""

from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final

import pluggy

from servekit_archiver import hookspecs
from servekit_archiver.errors import ArchiveError
from servekit_archiver.strictjson import show

__all__ = ["GROUP", "create_plugin_manager", "recognise"]

GROUP: Final = "servekit"


def create_plugin_manager(
    *extra: object, discover: bool = True
) -> tuple[pluggy.PluginManager, dict[str, str]]:
    """Return a manager holding the installed plugins, then *extra*; and what failed to import.

    It knows ``recognise_model`` alone: the server's hooks are none of the archiver's business.

    :param discover: ``False`` in tests, to keep the machine's plugins out.
    :return: the manager, and plugin name to reason for each plugin that it lacks.
    """
    manager = pluggy.PluginManager(GROUP)
    manager.add_hookspecs(hookspecs)
    failures: dict[str, str] = {}
    for point in sorted(entry_points(group=GROUP)) if discover else ():
        try:
            manager.register(point.load(), point.name)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin may raise anything
            failures[point.name] = f"{type(error).__name__}: {error}"
    for plugin in extra:
        manager.register(plugin)
    return manager, failures


def recognise(directory: Path, *extra: object, discover: bool = True) -> Mapping[str, Any] | None:
    """Return the ``model.toml`` keys that a plugin offers for *directory*, or ``None``.

    :raises ArchiveError: a plugin fails, or two recognise the directory.
    """
    manager, failures = create_plugin_manager(*extra, discover=discover)
    offers: dict[str, Mapping[str, Any]] = {}
    for hook in manager.hook.recognise_model.get_hookimpls():
        try:
            offer: Any = hook.function(*[directory for _ in hook.argnames])
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise ArchiveError(f"{directory}: plugin {hook.plugin_name}: {reason}") from error
        if offer is None:
            continue
        if not isinstance(offer, Mapping):
            reason = f"offers {show(offer)}, not a mapping"
            raise ArchiveError(f"{directory}: plugin {hook.plugin_name}: {reason}")
        offers[hook.plugin_name] = offer
    if len(offers) > 1:
        names = " and ".join(sorted(offers))
        raise ArchiveError(f"{directory}: recognised by {names}; name a service in model.toml")
    if not offers and failures:
        named = "; ".join(f"{name} ({reason})" for name, reason in failures.items())
        raise ArchiveError(f"{directory}: not recognised, and these plugins failed: {named}")
    return next(iter(offers.values()), None)
