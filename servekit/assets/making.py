# SPDX-License-Identifier: Apache-2.0
"""Has a service make its assets: locked, resumed, verified, then renamed into the cache.

CACHE/assets/KEY.lock        held while a process makes them
CACHE/assets/KEY.part/       where ``store_assets`` writes; the next attempt finds it again
CACHE/assets/SHA256/FILE     a file or folder, read-only

KEY is a digest of the code, so that one version never continues the files of another.
"""

import hashlib
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from servekit_archiver import Asset
from servekit_archiver.cache.places import own_folder

from servekit.assets.cache import asset_path, is_cached, locked
from servekit.assets.content import Content, read_content, seal
from servekit.errors import AssetError

__all__ = ["Maker", "make_assets"]


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes the assets of one model."""

    directory: Path  #: the directory of the model
    store: Callable[[Path], object]  #: runs ``store_assets`` into a directory

    def key(self, assets: Mapping[str, Asset]) -> str:
        """Return the name of an attempt: a digest of the code and of the assets."""
        code = hashlib.sha256(repr(sorted(assets.items())).encode())
        for path in sorted(self.directory.rglob("*.py")):
            code.update(f"{path.relative_to(self.directory)}\0".encode() + path.read_bytes())
        return f"made-{code.hexdigest()[:32]}"


def make_assets(
    assets: Mapping[str, Asset], cache: Path, maker: Maker, *, is_new: bool = False
) -> Mapping[str, str]:
    """Make those of *assets* that are not in *cache*, all at once, and return their SHA-256.

    Blocks until then. Safe in several processes at once.

    :param is_new: accept any content, even if the cache has another one.
    :raises AssetError: they cannot be made, or are not what the manifest says.
    :raises ArchiveError: others may write to the cache.
    """
    folder = own_folder(cache / "assets")
    part = folder / f"{maker.key(assets)}.part"
    try:
        with locked(part.with_suffix(".lock")):
            there = (is_cached(asset_path(cache, asset), asset) for asset in assets.values())
            if is_new or not all(there):
                made = _make(part, assets, maker) if is_new else _complete(part, assets, maker)
                assets = {
                    name: replace(asset, sha256=made[name].sha256) for name, asset in assets.items()
                }
                for name, asset in assets.items():
                    _install(part / (asset.file or name), asset_path(cache, asset))
                shutil.rmtree(part)
    except OSError as error:
        raise AssetError(f"{error.filename or folder}: {error.strerror}") from error
    return {name: asset.sha256 for name, asset in assets.items()}


def _complete(part: Path, assets: Mapping[str, Asset], maker: Maker) -> dict[str, Content]:
    """Make the assets in *part*; if an earlier attempt left damaged ones, start again."""
    while True:
        is_resumed = part.exists()
        made = _make(part, assets, maker)
        wrong = [name for name, asset in assets.items() if made[name].sha256 != asset.sha256]
        if not wrong:
            return made
        shutil.rmtree(part)
        if not is_resumed:
            told = (
                f"{name}: store_assets made {made[name]}, expected {assets[name].sha256}"
                for name in wrong
            )
            raise AssetError("; ".join(told))


def _make(part: Path, assets: Mapping[str, Asset], maker: Maker) -> dict[str, Content]:
    part.mkdir(mode=0o700, exist_ok=True)
    maker.store(part)
    return {name: read_content(part / (asset.file or name)) for name, asset in assets.items()}


def _install(made: Path, path: Path) -> None:
    """Give verified content its name, unless the same content has it already."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    if not path.exists():
        seal(made)
        made.replace(path)
