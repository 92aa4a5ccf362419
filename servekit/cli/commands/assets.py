# SPDX-License-Identifier: Apache-2.0
"""``servekit assets``: gets what a model needs and its archive does not hold."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from servekit_archiver import default_cache_dir

from servekit.assets.cache import asset_path, is_cached
from servekit.cli.model.fetch_progress import AssetCollection
from servekit.cli.model.manifest import manifest_of, refusing
from servekit.cli.model.model_toml import read_unfinished, write_digests
from servekit.cli.parsing.exit_status import OK, PROBLEM_FOUND
from servekit.extension.commands import Run
from servekit.settings import load_settings

__all__ = ["assets"]

EPILOG = """\
Each [assets.NAME] of model.toml is stored once in the cache, where all models and versions share
it. It is fetched from its url, or created by the service's store_assets(directory) if it has
none, which runs the model's code. Interrupted downloads are resumed, and the SHA-256 is verified.
servekit start then uses it, and fetches nothing itself without --fetch-assets.

examples:
  servekit assets ./model_directory --write    the first time: compute each SHA-256
  servekit assets ./model_directory
  servekit assets digits.mar --cache-dir /var/cache/servekit
  servekit assets digits.mar --offline         only list missing files; status 1 if there are any
"""


def assets(parser: argparse.ArgumentParser) -> Run:
    """Add the flags, and return what runs the command."""
    parser.epilog = EPILOG
    parser.add_argument("model", type=Path, metavar="MODEL", help="archive or model directory")
    parser.add_argument("--json", action="store_true", help="print a JSON array")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--offline", action="store_true", help="only list what is missing")
    modes.add_argument(
        "--write",
        action="store_true",
        help="write SHA-256 digests into model.toml: of everything that the service creates"
        " (again), and of downloads without one",
    )
    parser.add_argument("--cache-dir", metavar="DIR", help="cache directory")
    parser.add_argument(
        "--install-requirements",
        action="store_true",
        help="run store_assets in a separate environment with the model's requirements.txt",
    )
    return run


def run(parsed: argparse.Namespace) -> int:
    """Fetch or make what is missing, and print where everything is.

    :raises StartupError: the model is refused.
    """
    settings = load_settings({"cache_dir": parsed.cache_dir})
    with refusing():
        cache = Path(settings.cache_dir) if settings.cache_dir else default_cache_dir()
        manifest = read_unfinished(parsed.model) if parsed.write else manifest_of(parsed.model)
        collection = AssetCollection(parsed.model, manifest, cache)
        if not parsed.offline:
            collection.fetch()
            collection.make(is_new=parsed.write, installs=parsed.install_requirements)
    if parsed.write:
        known = collection.assets.items()
        write_digests(
            parsed.model, {name: a.sha256 for name, a in known if name not in collection.errors}
        )
    found = list(facts(collection))
    print(json.dumps(found, indent=2) if parsed.json else as_text(found))
    return PROBLEM_FOUND if any(entry["error"] for entry in found) else OK


def facts(collection: AssetCollection) -> Iterator[dict[str, Any]]:
    """Yield what is known of each asset."""
    for name, asset in collection.assets.items():
        path = asset_path(collection.cache, asset)
        lacking = "" if is_cached(path, asset) else "not in the cache"
        error = collection.errors.get(name, lacking)
        yield {"name": name, **asset.to_mapping(), "path": str(path), "error": error}


def as_text(found: list[dict[str, Any]]) -> str:
    """Return a line for each asset."""
    if not found:
        return "the model has no [assets]"
    return "\n".join(f"{entry['name']}  {entry['error'] or entry['path']}" for entry in found)
