# SPDX-License-Identifier: Apache-2.0
"""Gets the assets of a model into the cache, and shows how far it is."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic

from servekit_archiver import Asset, Manifest, unpack
from servekit_archiver.cli.output import human_bytes, progress_bar

from servekit.assets.cache import asset_path, is_cached
from servekit.assets.fetchers import find_fetcher
from servekit.assets.fetching import fetch_asset, fetch_unknown
from servekit.assets.making import Maker, make_assets
from servekit.cli.model.model_toml import UNKNOWN
from servekit.environments.wanted import WantedPackages
from servekit.errors import StartupError
from servekit.plugins import create_plugin_manager
from servekit.supervisor.preparing.storing import StoreAssets

__all__ = ["AssetCollection"]

#: called with the bytes that are there, and the bytes in all (0 if nobody knows)
Progress = Callable[[int, int], object]


class AssetCollection:
    """The assets of one model on their way into the cache."""

    def __init__(self, path: Path, manifest: Manifest, cache: Path) -> None:
        """Get nothing yet.

        :param path: archive or directory of the model.
        """
        self._path, self._manifest = path, manifest
        self.cache = cache
        self.assets = dict(manifest.assets)  #: a SHA-256 that is found out is filled in
        self.errors: dict[str, str] = {}  #: why an asset could not be had

    def fetch(self) -> None:
        """Fetch those with a URL that are not there."""
        for name, asset in self.assets.items():
            if asset.url is not None and not is_cached(asset_path(self.cache, asset), asset):
                with self._telling(
                    [name], f"fetching {asset.url}{_size(asset)}", "fetched"
                ) as progress:
                    self.assets[name] = self._fetched(asset, asset.url, progress)

    def _fetched(self, asset: Asset, url: str, progress: Progress) -> Asset:
        fetcher = find_fetcher(url, create_plugin_manager())
        if asset.sha256 == UNKNOWN:
            digest = fetch_unknown(asset, self.cache, fetcher, progress)
            return replace(asset, sha256=digest)
        fetch_asset(asset, self.cache, fetcher, progress)
        return asset

    def make(self, *, is_new: bool, installs: bool) -> None:
        """Let the service make the missing assets without a URL.

        :param is_new: make them again, and accept any content.
        :param installs: do it in an environment of the model's own.
        """
        made = {name: asset for name, asset in self.assets.items() if asset.url is None}
        there = (is_cached(asset_path(self.cache, asset), asset) for asset in made.values())
        if not made or (all(there) and not is_new):
            return
        total = sum(asset.size or 0 for asset in made.values())
        with self._telling(list(made), "running store_assets", "made") as progress:
            code = self._code(installs=installs)
            maker = Maker(
                code.directory, lambda into: code.run(into, lambda size: progress(size, total))
            )
            digests = make_assets(made, self.cache, maker, is_new=is_new)
            for name, asset in made.items():
                self.assets[name] = replace(asset, sha256=digests[name])

    def _code(self, *, installs: bool) -> StoreAssets:
        """Return what runs the model's code; an archive is unpacked for it."""
        path, manifest = self._path, self._manifest
        directory = path.absolute() if path.is_dir() else Path(unpack(path, self.cache).directory)
        wanted = WantedPackages.of(manifest, directory)
        if installs and wanted:
            from servekit.environments.building import environment_for
            from servekit.environments.store import python_of

            tell = lambda text: print(text, file=sys.stderr)  # noqa: E731 - used once
            python = python_of(environment_for(wanted, self.cache, tell))
            return StoreAssets(manifest, directory, python)
        return StoreAssets(manifest, directory)

    @contextmanager
    def _telling(self, names: list[str], doing: str, done: str) -> Iterator[Progress]:
        """Say what is done, how far it is and how long it took; keep why it failed."""
        started, label = monotonic(), ", ".join(names)
        sys.stderr.write(f"{label}: {doing}\n")
        with progress_bar(label) as bar:
            try:
                yield lambda size, total: bar and bar(size, total or size)
            except StartupError as error:
                self.errors |= dict.fromkeys(names, str(error))
                return
        sys.stderr.write(f"{label}: {done} in {monotonic() - started:.1f} s\n")


def _size(asset: Asset) -> str:
    return f" ({human_bytes(asset.size)})" if asset.size is not None else ""
