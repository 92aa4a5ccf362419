# SPDX-License-Identifier: Apache-2.0
"""Where the assets of all models lie: ``CACHE/assets/SHA256/FILE``."""

from collections.abc import Mapping
from pathlib import Path

from servekit_archiver import Asset, Manifest

__all__ = ["asset_path", "is_cached", "split_cached"]

FOLDER = "assets"


def asset_path(cache: Path, asset: Asset) -> Path:
    """Return where *asset* is, or will be once it is fetched."""
    return cache / FOLDER / asset.sha256 / asset.file_name


def is_cached(path: Path, asset: Asset) -> bool:
    """Say whether *asset* is at *path*. What has a name there was verified before it got it."""
    try:
        size = path.stat().st_size
    except OSError:
        return False
    return asset.size in (None, size)


def split_cached(cache: Path, manifest: Manifest) -> tuple[Mapping[str, Path], list[str]]:
    """Return where the assets of a model are, by name, and the names of those not in *cache*."""
    paths = {name: asset_path(cache, asset) for name, asset in manifest.assets.items()}
    missing = [name for name, path in paths.items() if not is_cached(path, manifest.assets[name])]
    return {name: path for name, path in paths.items() if name not in missing}, missing
