# SPDX-License-Identifier: Apache-2.0
"""Flask routes that plugins add, with their part of ``/openapi.json``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from servekit.errors import PluginError

if TYPE_CHECKING:
    from flask import Blueprint

__all__ = ["Routes", "merge_fragment"]

#: part of an OpenAPI 3.1 document; or what returns it, given the document without it
Fragment = Mapping[str, Any] | Callable[[Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """What a plugin returns from ``register_routes``."""

    #: its views run in greenlets; ``None`` if middleware answers at these paths
    blueprint: Blueprint | None = None
    openapi: Fragment = field(default_factory=dict)  #: merged into the document of the listener
    listener: Literal["public", "management"] = "public"
    #: starts of paths below which reading needs what a prediction needs: the token, and
    #: ``authorize``. Each with what names the model of a target; "" if it concerns none
    protected: Mapping[str, Callable[[str], str]] = field(default_factory=dict)


def merge_fragment(document: dict[str, Any], fragment: Mapping[str, Any], path: str = "") -> None:
    """Merge *fragment* into *document*: mappings by key, lists one after the other.

    :raises PluginError: both have another value at the same place.
    """
    for key, value in fragment.items():
        place, known = f"{path}/{key}", document.get(key)
        if known is None:
            document[key] = value
        elif isinstance(known, dict) and isinstance(value, Mapping):
            document[key] = copied = dict(known)  # parts of a document may be shared constants
            merge_fragment(copied, value, place)
        elif isinstance(known, list) and isinstance(value, list):
            document[key] = known + value
        elif known != value:
            raise PluginError(f"openapi: {place} is defined twice")
