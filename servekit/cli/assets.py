# SPDX-License-Identifier: Apache-2.0
"""``servekit assets``: fetches what a model needs and its archive does not hold."""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

from servekit_archiver import ArchiveError, Asset, Manifest, default_cache_dir
from servekit_archiver.cli.commands import human_bytes
from servekit_archiver.cli.progress import progress_bar

from servekit.assets.cache import asset_path, is_cached
from servekit.assets.fetchers import find_fetcher
from servekit.assets.fetching import fetch_asset
from servekit.cli.exit_status import OK, PROBLEM_FOUND
from servekit.cli.manifest import manifest_of
from servekit.errors import StartupError
from servekit.plugins import create_plugin_manager
from servekit.settings import load_settings

__all__ = ["add_arguments", "run"]

EPILOG = """\
Each [assets.NAME] of model.toml is fetched once into the cache, where all models and
versions share it; what was broken off goes on from there, and the SHA-256 is verified.
servekit start then finds it, and never fetches by itself unless it is given --fetch-assets.

examples:
  servekit assets ./model_directory
  servekit assets digits.mar --cache-dir /var/cache/servekit
  servekit assets digits.mar --offline         only say what is missing; status 1 if any is
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    parser.epilog = EPILOG
    parser.add_argument("model", type=Path, metavar="MODEL", help="archive or model directory")
    parser.add_argument("--json", action="store_true", help="print a JSON array")
    parser.add_argument("--offline", action="store_true", help="fetch nothing")
    parser.add_argument("--cache-dir", metavar="DIR", help="where they are kept")


def run(parsed: argparse.Namespace) -> int:
    """Fetch what is missing, and print where everything is.

    :raises StartupError: the model is refused, or nothing fetches one of its URLs.
    """
    settings = load_settings({"cache_dir": parsed.cache_dir})
    try:
        cache = Path(settings.cache_dir) if settings.cache_dir else default_cache_dir()
        manifest = manifest_of(parsed.model)
        found = list(gather(manifest, cache, is_offline=parsed.offline))
    except ArchiveError as error:
        raise StartupError(str(error)) from error
    print(json.dumps(found, indent=2) if parsed.json else as_text(found))
    return PROBLEM_FOUND if any(entry["error"] for entry in found) else OK


def gather(manifest: Manifest, cache: Path, *, is_offline: bool) -> Iterator[dict[str, Any]]:
    """Yield what is known of each asset once it is there, or cannot be."""
    for name, asset in manifest.assets.items():
        error = "" if is_cached(path := asset_path(cache, asset), asset) else "not in the cache"
        if error and not is_offline:
            error = fetch(name, asset, cache)
        yield {"name": name, **asset.to_mapping(), "path": str(path), "error": error}


def fetch(name: str, asset: Asset, cache: Path) -> str:
    """Fetch *asset* and show how far it is; return why it cannot be, or ""."""
    started = monotonic()
    size = f" ({human_bytes(asset.size)})" if asset.size is not None else ""
    with progress_bar(name) as bar:
        if bar is None:
            sys.stderr.write(f"{name}: fetching {asset.url}{size}\n")
        try:
            fetcher = find_fetcher(asset.url, create_plugin_manager())
            fetch_asset(asset, cache, fetcher, lambda done, total: bar and bar(done, total or done))
        except StartupError as error:
            return str(error)
    sys.stderr.write(f"{name}: fetched in {monotonic() - started:.1f} s\n")
    return ""


def as_text(found: list[dict[str, Any]]) -> str:
    """Return a line for each asset."""
    if not found:
        return "the model has no [assets]"
    return "\n".join(f"{entry['name']}  {entry['error'] or entry['path']}" for entry in found)
