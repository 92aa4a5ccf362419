# SPDX-License-Identifier: Apache-2.0
"""The cache of assets, shared by all models: ``CACHE/assets/SHA256/FILE``."""

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from servekit_archiver import Asset, Manifest

__all__ = ["asset_path", "is_cached", "locked", "split_cached"]

FOLDER = "assets"


def asset_path(cache: Path, asset: Asset) -> Path:
    """Return where *asset* is, or will be once it is fetched."""
    return cache / FOLDER / asset.sha256 / asset.file_name


def is_cached(path: Path, asset: Asset) -> bool:
    """Say whether *asset* is at *path*, where only verified content gets a name."""
    try:
        size = path.stat().st_size
    except OSError:
        return False
    return asset.size in (None, size) or path.is_dir()


def split_cached(cache: Path, manifest: Manifest) -> tuple[Mapping[str, Path], list[str]]:
    """Return where the assets of a model are, by name, and the names of those not in *cache*."""
    paths = {name: asset_path(cache, asset) for name, asset in manifest.assets.items()}
    missing = [name for name, path in paths.items() if not is_cached(path, manifest.assets[name])]
    return {name: path for name, path in paths.items() if name not in missing}, missing


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file *path*; blocks while another process holds it."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # released with the file, however we end
        yield
