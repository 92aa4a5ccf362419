# SPDX-License-Identifier: Apache-2.0
"""Asks the installed plugins whether they know a directory. Imported only when one must be asked.

A plugin that cannot be imported is named in the error, if no other recognises the directory.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from servekit_archiver.errors import ArchiveError, NotRecognised
from servekit_archiver.plugins import HookFailure, HookManager
from servekit_archiver.strictjson import show

__all__ = ["recognise"]


def recognise(directory: Path, *extra: object, discover: bool = True) -> Mapping[str, Any] | None:
    """Return the ``model.toml`` keys that a plugin offers for *directory*, or ``None``.

    :param extra: more plugins, for tests.
    :param discover: ``False`` in tests, to keep the machine's plugins out.
    :raises ArchiveError: a plugin fails, or two recognise the directory.
    :raises NotRecognised: none does, and some cannot be imported.
    """
    manager = HookManager()
    if discover:
        manager.discover()
    for plugin in extra:
        manager.register(plugin)
    try:
        offers = dict(manager.contributions("recognise_model", directory=directory))
    except HookFailure as failure:
        error = failure.__cause__
        name = type(error).__name__
        is_sentence = type(error).__module__ != "builtins"  # the plugin refuses the directory
        reason = str(error) if is_sentence else f"{name}: {error}"
        raise ArchiveError(f"{directory}: plugin {failure.plugin}: {reason}") from error
    for name, offer in offers.items():
        if not isinstance(offer, Mapping):
            reason = f"offers {show(offer)}, not a mapping"
            raise ArchiveError(f"{directory}: plugin {name}: {reason}")
    offers = _enclosing(offers, manager) or offers
    if len(offers) > 1:
        names = " and ".join(sorted(offers))
        raise ArchiveError(f"{directory}: recognised by {names}; name a service in model.toml")
    failed = [f"{each.name} ({each.error})" for each in manager.installed if each.error]
    if not offers and failed:
        named = "; ".join(failed)
        raise NotRecognised(f"{directory}: not recognised, and these plugins failed: {named}")
    return next(iter(offers.values()), None)


def _enclosing(offers: Mapping[str, Any], manager: HookManager) -> dict[str, Any]:
    """Return the *offers* of plugins whose formats contain files of other formats."""
    hooks = manager.hook.recognise_model.get_hookimpls()
    first = {each.plugin_name for each in hooks if each.tryfirst}
    return {name: offer for name, offer in offers.items() if name in first}
