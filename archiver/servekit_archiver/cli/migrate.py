# SPDX-License-Identifier: Apache-2.0
"""``migrate``: pack a model in another format, and report what became of its settings."""

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from servekit_archiver.archive.builder import Built
from servekit_archiver.cli.guarded import guarded
from servekit_archiver.cli.output import human_bytes, progress_bar
from servekit_archiver.commands import Run
from servekit_archiver.counting import counted
from servekit_archiver.migrating import migrate_archive
from servekit_archiver.migration import MigrationRow

__all__ = ["migrate"]

HEAD = ("before", "now", "note")
NOTHING = "-"  #: in place of what has no counterpart


def migrate(parser: ArgumentParser) -> Run:
    """``migrate``: pack a model in another format, and report what became of its settings."""
    parser.epilog = """The formats are those of the installed plugins: see "servekit plugins".
A server can also start such a model unchanged; an archive has digests, and can be signed,
encrypted and edited.

examples:
  %(prog)s ../old/resnet.mar -o resnet.mar
  %(prog)s mlruns/1/models/m-1/artifacts -o iris.mar --name iris
  %(prog)s resnet-old.mar -o resnet.mar --json > report.json
"""
    parser.add_argument("source", type=Path, metavar="SOURCE", help="archive or directory")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", required=True, help="the new archive"
    )
    parser.add_argument("-f", "--force", action="store_true", help="replace an existing file")
    parser.add_argument("--name", help="name of the model, instead of the one that it has")
    parser.add_argument("--version", help="version of the model, instead of the one that it has")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    return guarded(_migrate)


def _migrate(args: Namespace) -> None:
    given = {"name": args.name, "version": args.version}
    overrides = {key: value for key, value in given.items() if value is not None}
    with progress_bar("packing") as progress:
        migrated = migrate_archive(
            args.source, args.output, force=args.force, progress=progress, overrides=overrides
        )
    built = migrated.built
    if args.json:
        print(json.dumps(_facts(built) | {"settings": [asdict(row) for row in migrated.rows]}))
        return
    facts, count = _facts(built), counted(len(built.manifest.files), "file")
    print(f"{built.path}: {facts['name']} {facts['version']}, {count}, {human_bytes(built.size)}")
    print(f"digest {built.digest}\n")
    print("\n".join(_table(migrated.rows)))


def _facts(built: Built) -> dict[str, object]:
    manifest = built.manifest
    return {
        "path": str(built.path),
        "size": built.size,
        "digest": built.digest,
        "name": manifest.name,
        "version": manifest.version,
    }


def _table(rows: Sequence[MigrationRow]) -> Iterable[str]:
    """Yield *rows* in columns; the last one is not padded."""
    cells = [HEAD, *((row.before, row.now or NOTHING, row.note) for row in rows)]
    first, second = (max(len(row[column]) for row in cells) for column in (0, 1))
    for before, now, note in cells:
        yield f"{before:<{first}}  {now:<{second}}  {note}".rstrip()
