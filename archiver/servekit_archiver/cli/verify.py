# SPDX-License-Identifier: Apache-2.0
"""``servekit-archive verify``, and ``servekit verify``."""

import argparse
from pathlib import Path

from servekit_archiver.cli.commands import Commands, add_command, human_bytes
from servekit_archiver.cli.progress import progress_bar
from servekit_archiver.counting import counted
from servekit_archiver.reader import open_archive

__all__ = ["add_to"]

EXAMPLES = """  %(prog)s digits.mar
  %(prog)s digits.mar && echo sound
"""


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands, "verify", run, "read an archive whole and compare it with its manifest", EXAMPLES
    )
    parser.add_argument("archive", type=Path, metavar="FILE")


def run(args: argparse.Namespace) -> None:
    """Verify, and say what was found sound."""
    with open_archive(args.archive) as archive, progress_bar("verifying") as progress:
        archive.verify(progress)
        size = human_bytes(archive.unpacked_size)
        print(f"{args.archive}: sound, {counted(len(archive.entries), 'file')}, {size}")
        print(f"digest {archive.digest}")
