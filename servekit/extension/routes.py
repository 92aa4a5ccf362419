# SPDX-License-Identifier: Apache-2.0
"""Flask routes that plugins add, with their part of ``/openapi.json``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from servekit.errors import PluginError

if TYPE_CHECKING:
    from flask import Blueprint

__all__ = ["Routes", "merged"]

#: part of an OpenAPI 3.1 document; or a function that gets the document without it and returns it
Fragment = Mapping[str, Any] | Callable[[Mapping[str, Any]], Mapping[str, Any]]

#: only routes on the public listener may have these
OF_CLIENTS = ("openapi", "protected", "managed", "own_access", "pages", "home")


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """Flask routes, as ``register_routes`` returns them.

    :raises PluginError: one for management has what only the listener of clients has: it is not
        in their description, and all of it is protected.
    """

    #: its views run in greenlets; ``None`` if middleware answers at these paths
    blueprint: Blueprint | None = None
    openapi: Fragment = field(default_factory=dict)  #: merged into ``/openapi.json``
    links: Mapping[str, str] = field(default_factory=dict)  #: name to path, shown at ``/``
    listener: Literal["public", "management"] = "public"
    #: starts of paths where reading needs what a prediction needs: the token, and ``authorize``.
    #: Each with a function from a decoded path to the name of its model, or ""
    protected: Mapping[str, Callable[[str], str]] = field(default_factory=dict)
    #: starts of paths of the public listener where every request needs the token for management
    managed: Sequence[str] = ()
    #: starts of paths of the public listener whose views decide alone who may use them
    own_access: Sequence[str] = ()
    #: title to path of pages for people: they are in the navigation of the console
    pages: Mapping[str, str] = field(default_factory=dict)
    home: str = ""  #: the page to which a browser is sent from ``/``

    def __post_init__(self) -> None:
        """Refuse what has no meaning for management."""
        if self.listener == "public":
            return
        given = [name for name in OF_CLIENTS if getattr(self, name)]
        if given:
            raise PluginError(f"routes for management: {given[0]} is for the public listener")


def merged(document: Mapping[str, Any], fragment: Mapping[str, Any], path: str = "") -> Any:
    """Return *document* with *fragment*: mappings by key, lists one after the other.

    :raises PluginError: both have a value at one place, and the values differ.
    """
    found = dict(document)
    for key, value in fragment.items():
        place, known = f"{path}/{key}", found.get(key)
        if known is None:
            found[key] = value
        elif isinstance(known, Mapping) and isinstance(value, Mapping):
            found[key] = merged(known, value, place)
        elif isinstance(known, list) and isinstance(value, list):
            found[key] = known + value
        elif known != value:
            raise PluginError(f"openapi: {place} is defined twice")
    return found
