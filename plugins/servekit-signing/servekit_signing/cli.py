# SPDX-License-Identifier: Apache-2.0
"""``servekit-archive sign``, and ``--key`` of ``servekit-archive verify``."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from servekit_archiver import Archive, ArchiveError, open_archive, write_signed
from servekit_archiver.commands import Check, Run

from servekit_signing.bundle import seal
from servekit_signing.keys import fingerprint, private_key
from servekit_signing.statement import digests_of, make_statement
from servekit_signing.verifying import verify

__all__ = ["extend", "sign"]

EPILOG = """\
The key is a private key in a PEM file, on one of the curves P-256, P-384 and P-521. The signature
becomes part of the archive, whose digest does not change.

examples:
  %(prog)s digits.mar --key key.pem
  openssl ecparam -name prime256v1 -genkey -noout -out key.pem     make a private key
  openssl ec -in key.pem -pubout -out pub.pem                      and its public key
"""


def sign(parser: ArgumentParser) -> Run:
    """Add the arguments of ``sign``, and return what runs it."""
    parser.epilog = EPILOG
    parser.add_argument("archive", type=Path, metavar="FILE")
    parser.add_argument("--key", type=Path, required=True, metavar="FILE", help="private key (PEM)")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="default: replace the archive"
    )
    parser.add_argument("-f", "--force", action="store_true", help="replace an existing output")
    return _sign


def _sign(args: Namespace) -> int:
    """Sign an archive whose content is sound.

    :raises ArchiveError: the archive, the key or the output is refused.
    """
    key = private_key(args.key)
    with open_archive(args.archive) as archive:
        archive.verify()
        bundle = seal(make_statement(archive.manifest.name, digests_of(archive)), key)
        digest = archive.digest
    output = args.output or args.archive
    write_signed(args.archive, output, bundle, force=args.force or args.output is None)
    print(f"{output}: signed by the key {fingerprint(key.public_key())[:16]}")
    print(f"digest {digest}")
    return 0


def extend(parser: ArgumentParser) -> Check:
    """Add ``--key``, and return what checks the signature."""
    parser.add_argument(
        "--key",
        type=Path,
        action="append",
        default=[],
        metavar="PATH",
        help="a public key (PEM), or a directory of such files, that must have signed it",
    )
    return _check


def _check(archive: Archive, args: Namespace) -> list[str]:
    if not args.key:
        return []
    try:
        return [f"signed by the key {verify(archive, args.key)[:16]}"]
    except ArchiveError as error:
        raise ArchiveError(f"{archive.path}: {error}") from error
