# SPDX-License-Identifier: Apache-2.0
"""Fetches one asset into the cache: locked, resumed, verified, then renamed.

CACHE/assets/SHA256.lock        held while a process fetches it
CACHE/assets/SHA256.part        received so far; the next attempt continues there
CACHE/assets/SHA256/FILE        the complete content, read-only
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from servekit_archiver import Asset
from servekit_archiver.cache.places import own_folder

from servekit.assets.cache import asset_path, is_cached, locked
from servekit.assets.fetchers import Fetcher
from servekit.counting import counted
from servekit.errors import AssetError, StartupError

__all__ = ["Progress", "fetch_asset", "fetch_unknown"]

READ_ONLY = 0o444

#: called with the bytes received, and the bytes in all (0 if that is not known)
Progress = Callable[[int, int], object]


def fetch_asset(asset: Asset, cache: Path, fetcher: Fetcher, progress: Progress) -> Path:
    """Return the path of *asset* in *cache*, fetched unless it is there. Blocks until then.

    Safe in several processes at once: one fetches, the others wait for it.

    :raises AssetError: it cannot be fetched, or is not what the manifest says.
    :raises ArchiveError: others may write to the cache.
    """
    path = asset_path(cache, asset)
    folder = own_folder(path.parent.parent)
    try:
        with locked(folder / f"{asset.sha256}.lock"):
            if not (is_cached(path, asset) or _link_other_name(path, asset)):
                part = folder / f"{asset.sha256}.part"
                _complete(part, asset, fetcher, progress)
                _install(part, path)
    except OSError as error:  # raised by the cache: errors of the fetcher have the URL
        raise AssetError(f"{error.filename or folder}: {error.strerror}") from error
    return path


def fetch_unknown(asset: Asset, cache: Path, fetcher: Fetcher, progress: Progress) -> str:
    """Fetch *asset*, whose SHA-256 is not known yet, and return that.

    :raises AssetError: it cannot be fetched.
    :raises ArchiveError: others may write to the cache.
    """
    folder = own_folder(asset_path(cache, asset).parent.parent)
    part = folder / f"{hashlib.sha256(str(asset.url).encode()).hexdigest()}.first"
    try:
        with locked(part.with_suffix(".lock")):
            digest = _download(part, asset, fetcher, progress)
            _install(part, asset_path(cache, replace(asset, sha256=digest)))
    except OSError as error:
        raise AssetError(f"{error.filename or folder}: {error.strerror}") from error
    return digest


def _install(part: Path, path: Path) -> None:
    """Give a complete file its name."""
    part.chmod(READ_ONLY)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    part.replace(path)


def _link_other_name(path: Path, asset: Asset) -> bool:
    """Link *path* to the same content under the name of another model; say whether there is any."""
    others = sorted(path.parent.glob("*")) if path.parent.is_dir() else []
    other = next((other for other in others if is_cached(other, asset)), None)
    if other is not None:
        path.hardlink_to(other)
    return other is not None


def _complete(part: Path, asset: Asset, fetcher: Fetcher, progress: Progress) -> None:
    """Complete *part*; if an earlier attempt left another version, start again."""
    while True:
        resumed_at = part.stat().st_size if part.exists() else 0
        digest = _download(part, asset, fetcher, progress)
        if digest == asset.sha256:
            return
        part.unlink()
        if not resumed_at:
            raise AssetError(f"{asset.url}: its SHA-256 is {digest}, expected {asset.sha256}")


def _download(part: Path, asset: Asset, fetcher: Fetcher, progress: Progress) -> str:
    """Append what is missing to *part* and return the SHA-256 of the whole."""
    part.touch(0o600)
    part.chmod(0o600)  # an attempt that was killed just before its end left it read-only
    with part.open("ab+") as file:
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256")
        done = file.tell()
        _check_room(part, asset, done)
        for chunk in _chunks(asset, fetcher, done):
            if asset.size is not None and done + len(chunk) > asset.size:
                file.truncate(0)
                raise AssetError(
                    f"{asset.url}: is larger than its size, {counted(asset.size, 'byte')}"
                )
            file.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            progress(done, asset.size or 0)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def _chunks(asset: Asset, fetcher: Fetcher, start: int) -> Iterator[bytes]:
    """Yield what is missing.

    :raises AssetError: the fetcher failed, or the content ends too early.
    """
    size, done = asset.size, start
    if size is not None and done >= size:
        return
    try:
        for chunk in fetcher(str(asset.url), start):
            done += len(chunk)
            yield chunk
    except StartupError:
        raise
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise AssetError(
            f"{asset.url}: {reason} (received and kept: {counted(done, 'byte')})"
        ) from error
    if size is not None and done < size:
        raise AssetError(f"{asset.url}: ended after {done} of {size} bytes")


def _check_room(part: Path, asset: Asset, done: int) -> None:
    free = shutil.disk_usage(part.parent).free
    if asset.size is not None and asset.size - done > free:
        raise AssetError(f"{part.parent}: {asset.size - done} bytes are needed, {free} are free")
