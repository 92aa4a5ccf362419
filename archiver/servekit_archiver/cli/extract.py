# SPDX-License-Identifier: Apache-2.0
"""``servekit-archive extract``, and ``servekit extract``."""

import argparse
from pathlib import Path

from servekit_archiver.cli.commands import Commands, add_command, human_bytes
from servekit_archiver.cli.progress import progress_bar
from servekit_archiver.counting import counted
from servekit_archiver.reader import open_archive

__all__ = ["add_to"]

EXAMPLES = """  %(prog)s digits.mar digits
  %(prog)s digits.mar digits --force    # over the files that are there
"""


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands, "extract", run, "unpack the model directory of an archive", EXAMPLES
    )
    parser.add_argument("archive", type=Path, metavar="FILE")
    parser.add_argument("directory", type=Path, metavar="DIR", help="new or empty")
    parser.add_argument(
        "-f", "--force", action="store_true", help="write over files of the same name in DIR"
    )
    parser.add_argument(
        "--with-manifest",
        action="store_true",
        help="write the manifest too: a server then takes DIR for the archive itself",
    )


def run(args: argparse.Namespace) -> None:
    """Verify and unpack, all or nothing."""
    with open_archive(args.archive) as archive, progress_bar("unpacking") as progress:
        archive.extract(
            args.directory, progress, force=args.force, with_manifest=args.with_manifest
        )
        size = human_bytes(archive.unpacked_size)
        print(f"{args.directory}: {counted(len(archive.entries), 'file')}, {size}")
