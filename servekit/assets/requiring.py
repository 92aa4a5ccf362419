# SPDX-License-Identifier: Apache-2.0
"""Finds or fetches the assets of a model that is about to be served. Runs in: prepare child."""

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from servekit_archiver import Manifest

from servekit.assets.cache import split_cached
from servekit.assets.fetchers import find_fetcher
from servekit.assets.fetching import fetch_asset
from servekit.assets.making import Maker, make_assets
from servekit.errors import AssetError
from servekit.plugins import create_plugin_manager

__all__ = ["fetch_missing", "hint_of", "require_assets", "teller"]

Tell = Callable[[str], None]


def require_assets(manifest: Manifest, cache: Path, hint: str) -> Mapping[str, Path]:
    """Return where the assets of *manifest* are, by name.

    :param hint: the arguments of the command that fetches them.
    :raises AssetError: one is not in *cache*; nothing is fetched.
    """
    paths, missing = split_cached(cache, manifest)
    if missing:
        names = ", ".join(missing)
        verb = "is" if len(missing) == 1 else "are"
        raise AssetError(f"assets: {names} {verb} not in the cache; run: servekit assets {hint}")
    return paths


def fetch_missing(manifest: Manifest, cache: Path, tell: Tell, maker: Maker | None) -> None:
    """Fetch, or have *maker* make, the assets that are not in *cache*, and report the progress.

    :raises AssetError: one cannot be fetched or made.
    :raises PluginError: nothing fetches its URL.
    """
    _, missing = split_cached(cache, manifest)
    if not missing:
        return
    manager, made = create_plugin_manager(), {}
    for name in missing:
        asset = manifest.assets[name]
        if asset.url is None:
            made[name] = asset
        else:
            fetch_asset(
                asset, cache, find_fetcher(asset.url, manager), teller(f"fetching {name}", tell)
            )
    if made and maker is None:
        names = ", ".join(made)
        raise AssetError(
            f"assets: {names}: store_assets does not run as root; run servekit assets first"
        )
    if made and maker:
        make_assets(made, cache, maker)


def teller(what: str, tell: Tell) -> Callable[[int, int], None]:
    """Return a function that reports the progress with each megabyte."""
    told = -1

    def progress(done: int, total: int) -> None:
        nonlocal told
        if (megabytes := done // 1_000_000) != told:
            told = megabytes
            of = f" of {total // 1_000_000}" if total else ""
            tell(f"{what}: {megabytes}{of} MB")

    return progress


def hint_of(path: str, cache_dir: str) -> str:
    """Return the arguments of the command that fetches what the model at *path* needs."""
    where = ["--cache-dir", cache_dir] if cache_dir else []
    return shlex.join([path, *where])
