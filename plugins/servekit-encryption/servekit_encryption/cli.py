# SPDX-License-Identifier: Apache-2.0
"""``servekit-archive encrypt``."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from servekit_archiver import ArchiveError, open_archive
from servekit_archiver.archive.builder import draft
from servekit_archiver.commands import Run

from servekit.errors import StartupError
from servekit.settings.archive_keys import key_id, read_archive_keys
from servekit_encryption import chunks

__all__ = ["encrypt"]

EPILOG = """\
examples:
  %(prog)s digits.mar --key-file key                     -> digits.mar.enc
  openssl rand -hex 32 > key                             make a key: 64 hexadecimal digits
  servekit start digits.mar.enc --archive-keys key       serve it
"""


def encrypt(parser: ArgumentParser) -> Run:
    """Add the arguments of ``encrypt``, and return what runs it."""
    parser.epilog = EPILOG
    parser.add_argument("archive", type=Path, metavar="FILE")
    parser.add_argument(
        "--key-file", required=True, metavar="SOURCE", help="a file, fd:NUMBER or env:VARIABLE"
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="default: the archive's name and .enc"
    )
    parser.add_argument("-f", "--force", action="store_true", help="replace an existing output")
    return _encrypt


def _encrypt(args: Namespace) -> int:
    """Encrypt an archive whose content is sound.

    :raises ArchiveError: the archive, the key or the output is refused.
    """
    try:
        (key,) = read_archive_keys([args.key_file])
    except StartupError as error:
        raise ArchiveError(str(error).removeprefix("archive_keys: ")) from error
    with open_archive(args.archive) as archive:
        archive.verify()
    output = args.output or args.archive.with_name(f"{args.archive.name}.enc")
    with args.archive.open("rb") as source, draft(output, args.force) as file:
        chunks.encrypt(source, chunks.new_header(key_id(key)), key, file.write)
    print(f"{output}: encrypted with the key {key_id(key)}")
    return 0
