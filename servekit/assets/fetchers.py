# SPDX-License-Identifier: Apache-2.0
"""Finds what fetches the URLs of a scheme: built in, or offered by a plugin."""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module

import pluggy

from servekit.errors import PluginError
from servekit.plugins import collect

__all__ = ["Fetcher", "find_fetcher", "register_fetchers"]

#: URL and a position in its content to the chunks from there on
Fetcher = Callable[[str, int], Iterator[bytes]]

HERE = "servekit.assets"
BUILT_IN = {
    "file": f"{HERE}.file:fetch",
    "http": f"{HERE}.http:fetch",
    "https": f"{HERE}.http:fetch",
}


def register_fetchers() -> Mapping[str, str]:
    """Offer the built-in fetchers."""
    return BUILT_IN


def find_fetcher(url: str, manager: pluggy.PluginManager) -> Fetcher:
    """Import what fetches *url*; a plugin's fetcher replaces the built-in one.

    :raises PluginError: nothing does, or two plugins do, or it cannot be imported.
    """
    scheme = url.partition(":")[0]
    offers = collect(manager, "register_fetchers")
    found = offers.get(scheme, [])
    if len(found) > 1:
        plugins = " and ".join(plugin for plugin, _ in found)
        raise PluginError(f"{scheme}: fetched by {plugins}; uninstall one")
    target = found[0][1] if found else register_fetchers().get(scheme)
    if target is None:
        known = ", ".join(sorted({*register_fetchers(), *offers}))
        raise PluginError(f"{url}: nothing installed fetches {scheme}:; known: {known}")
    return _import(target)


def _import(target: str) -> Fetcher:
    module, _, name = target.partition(":")
    try:
        fetcher: Fetcher = getattr(import_module(module), name)
    except Exception as error:
        raise PluginError(f"{target}: {type(error).__name__}: {error}") from error
    return fetcher
