# SPDX-License-Identifier: Apache-2.0
"""Finds what is in a cache: unpacked archives, assets, environments."""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from servekit_archiver import default_cache_dir
from servekit_archiver.cache.holding import DIGEST, discard, is_held, last_used
from servekit_archiver.cache.stamps import title_of
from servekit_archiver.names import MANIFEST

from servekit.environments import store
from servekit.supervisor.os.user import SYSTEM_CACHE

__all__ = ["ASSET", "ENVIRONMENT", "MODEL", "CacheEntry", "caches", "find_entries", "remove"]

MODEL, ASSET, ENVIRONMENT = "model", "asset", "environment"
SHOWN_PACKAGES: Final = 4


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """A directory of the cache that is there or not, as a whole."""

    kind: str
    name: str  #: for people
    path: Path
    size_bytes: int
    last_used: float  #: seconds since the epoch
    is_used: bool  #: a running server uses it
    facts: dict[str, Any] = field(default_factory=dict)  #: what is known of an environment


def caches(cache_dir: str) -> list[Path]:
    """Return the cache, and the ones below it for workers of other users.

    :param cache_dir: "" is the default, and the one that servers with other users have.
    """
    places = [Path(cache_dir)] if cache_dir else [default_cache_dir(), SYSTEM_CACHE]
    return [each for place in places for each in (place, *sorted(place.glob("user-*")))]


def find_entries(places: Iterable[Path], kinds: Iterable[str]) -> list[CacheEntry]:
    """Return what is in the caches *places*, the one that was used last first."""
    found: list[CacheEntry] = []
    for place in places:
        for kind in kinds:
            found += _FINDERS[kind](place)
    return sorted(found, key=lambda entry: -entry.last_used)


def _models(cache: Path) -> Iterator[CacheEntry]:
    for path in _directories(cache / "models"):
        used = last_used(path)
        yield CacheEntry(MODEL, _model_name(path), path, _size(path), used, is_held(path))


def _model_name(path: Path) -> str:
    try:
        manifest = json.loads((path / MANIFEST).read_bytes())
        return f"{manifest['name']}/{manifest['version']}"
    except (OSError, ValueError, KeyError, TypeError):  # other formats have another one
        return title_of(path.parent.parent / "verified", path.name) or "unreadable"


def _assets(cache: Path) -> Iterator[CacheEntry]:
    for path in _directories(cache / "assets"):
        name = ", ".join(sorted(each.name for each in path.iterdir()))
        yield CacheEntry(ASSET, name, path, _size(path), path.stat().st_mtime, is_held(path))


def _environments(cache: Path) -> Iterator[CacheEntry]:
    for path in store.environments_in(cache / store.FOLDER):
        facts: dict[str, Any] = {}
        with suppress(OSError, ValueError):
            facts = json.loads((path / store.FACTS_FILE).read_bytes())
        name, size = _packages_in_short(facts), _size(path)
        is_used = is_held(path) or _is_being_built(path)
        yield CacheEntry(ENVIRONMENT, name, path, size, store.last_use(path), is_used, facts)


def _packages_in_short(facts: dict[str, Any]) -> str:
    if not facts:
        return "incomplete"
    names = facts["packages"][:SHOWN_PACKAGES]
    more = len(facts["packages"]) - len(names)
    packages = ", ".join([*names, *([f"and {more} more"] if more else [])]) or "no packages"
    return f"Python {facts['python']}: {packages}"


def _is_being_built(path: Path) -> bool:
    try:
        with store.building(path):
            return False
    except BlockingIOError:
        return True


_FINDERS: Final = {MODEL: _models, ASSET: _assets, ENVIRONMENT: _environments}


def _directories(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*/") if DIGEST.fullmatch(path.name))


def _size(directory: Path) -> int:
    """Return the bytes of all files; some may be removed meanwhile."""
    total = 0
    for place, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118 - many of them
    return total


def remove(entry: CacheEntry) -> bool:
    """Remove *entry* unless somebody uses it by now; say whether it is gone."""
    if entry.kind == ENVIRONMENT:
        return store.remove(entry.path)
    discard(entry.path)
    return not entry.path.exists()
