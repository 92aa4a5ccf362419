# SPDX-License-Identifier: Apache-2.0
"""``servekit-archive init``, and ``servekit init``."""

import argparse
from pathlib import Path

from servekit_archiver.cli.commands import Commands, add_command
from servekit_archiver.scaffold import scaffold

__all__ = ["add_to"]

EXAMPLES = """  %(prog)s hello
  %(prog)s . --name hello
"""


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands, "init", run, "write a model directory that builds and serves as it is", EXAMPLES
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="made if need be")
    parser.add_argument("--name", help="of the model; default: the directory's")


def run(args: argparse.Namespace) -> None:
    """Write the files, and say what to do with them."""
    for path in scaffold(args.directory, args.name):
        print(path)
    print(f"next: {args.program} build {args.directory}")
