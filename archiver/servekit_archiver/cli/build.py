# SPDX-License-Identifier: Apache-2.0
"""``servekit-archive build``, and ``servekit build``."""

import argparse
import json
from pathlib import Path

from servekit_archiver.builder import build_archive
from servekit_archiver.cli.commands import Commands, add_command, human_bytes
from servekit_archiver.cli.progress import progress_bar
from servekit_archiver.counting import counted

__all__ = ["add_to"]

EXAMPLES = """  %(prog)s digits
  %(prog)s digits -o /srv/models/digits.mar --force
  %(prog)s . --version 1.1 --json
"""


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(commands, "build", run, "pack a model directory into an archive", EXAMPLES)
    parser.add_argument("directory", type=Path, metavar="DIR", help="holds model.toml")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="default: NAME.mar in this directory"
    )
    parser.add_argument("-f", "--force", action="store_true", help="replace an existing file")
    parser.add_argument("--name", help="instead of model.toml's; default: the directory's")
    parser.add_argument("--version", help="instead of model.toml's")
    parser.add_argument("--service", help="instead of model.toml's")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> None:
    """Build, and print file, size and digest."""
    given = {"name": args.name, "version": args.version, "service": args.service}
    overrides = {key: value for key, value in given.items() if value is not None}
    with progress_bar("packing") as progress:
        built = build_archive(
            args.directory, args.output, force=args.force, progress=progress, overrides=overrides
        )
    manifest = built.manifest
    if args.json:
        identity = {"name": manifest.name, "version": manifest.version}
        result = {"path": str(built.path), "size": built.size, "digest": built.digest, **identity}
        print(json.dumps(result))
        return
    count = counted(len(manifest.files), "file")
    size = human_bytes(built.size)
    print(f"{built.path}: {manifest.name} {manifest.version}, {count}, {size}")
    print(f"digest {built.digest}")
