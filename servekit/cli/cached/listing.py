# SPDX-License-Identifier: Apache-2.0
"""``list`` and ``prune``, for all of a cache or for one kind of what it holds."""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from time import time
from typing import Any

from servekit_archiver.cli.output import human_bytes

from servekit.cli.cached.entries import CacheEntry, caches, find_entries, remove
from servekit.cli.model.manifest import refusing
from servekit.cli.output.tables import table
from servekit.cli.parsing.exit_status import OK
from servekit.extension.commands import Run
from servekit.settings import load_settings
from servekit.settings.arguments import nonnegative

__all__ = ["list_or_prune"]

DAY_S = 86_400
HEAD = ("kind", "size", "last used", "in use", "name", "path")
PRUNE = "prune"


def list_or_prune(parser: argparse.ArgumentParser, kinds: Sequence[str]) -> Run:
    """Add the flags, and return what lists or removes entries of *kinds*."""
    parser.add_argument("action", choices=("list", PRUNE))
    parser.add_argument("--cache-dir", metavar="DIR", help="cache directory")
    parser.add_argument("--json", action="store_true", help="print a JSON array")
    parser.add_argument(
        "--unused-for",
        type=nonnegative,
        default=0.0,
        metavar="DAYS",
        help="only entries not used for DAYS days (default 0)",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="with prune: print what would be removed"
    )
    return lambda parsed: _run(parsed, kinds)


def _run(parsed: argparse.Namespace, kinds: Sequence[str]) -> int:
    """List, or remove and list what was removed.

    :raises StartupError: there is no place for a cache.
    """
    settings = load_settings({"cache_dir": parsed.cache_dir})
    with refusing():
        entries = find_entries(caches(settings.cache_dir), kinds)
    until = time() - parsed.unused_for * DAY_S
    entries = [entry for entry in entries if entry.last_used <= until]
    if parsed.action == PRUNE:
        goes: Callable[[CacheEntry], bool] = (lambda _: True) if parsed.dry_run else remove
        entries = [entry for entry in entries if not entry.is_used and goes(entry)]
    if parsed.json:
        print(json.dumps([_as_json(entry) for entry in entries], indent=2))
    else:
        _print(entries, _summary(parsed))
    return OK


def _as_json(entry: CacheEntry) -> dict[str, Any]:
    facts = asdict(entry)
    return {**facts.pop("facts"), **facts, "path": str(entry.path), "last_used": _time(entry)}


def _time(entry: CacheEntry) -> str:
    return datetime.fromtimestamp(entry.last_used, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _summary(parsed: argparse.Namespace) -> str:
    if parsed.action != PRUNE:
        return "in the cache"
    return "would be removed" if parsed.dry_run else "removed"


def _print(entries: Sequence[CacheEntry], summary: str) -> None:
    rows = [
        (
            entry.kind,
            human_bytes(entry.size_bytes),
            _time(entry),
            "yes" if entry.is_used else "",
            entry.name,
            str(entry.path),
        )
        for entry in entries
    ]
    if rows:
        print(table(HEAD, rows))
    print(f"{human_bytes(sum(entry.size_bytes for entry in entries))} {summary}")
