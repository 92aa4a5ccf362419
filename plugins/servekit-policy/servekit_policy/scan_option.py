# SPDX-License-Identifier: Apache-2.0
"""``servekit-archive verify --scan``."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from tempfile import TemporaryDirectory

from servekit_archiver import Archive, ArchiveError
from servekit_archiver.commands import Check

from servekit_policy.pickles.scanning import Finding, scan_directory

__all__ = ["extend"]


def extend(parser: ArgumentParser) -> Check:
    """Add the option, and return what applies it."""
    parser.add_argument(
        "--scan",
        action="store_true",
        help="list the pickles, and refuse those that import more than data needs",
    )
    return _check


def _check(archive: Archive, args: Namespace) -> list[str]:
    if not args.scan:
        return []
    with TemporaryDirectory(prefix="servekit-scan-") as directory:
        archive.write_files(Path(directory), None, None)
        findings = list(scan_directory(Path(directory)))
    harmful = [finding for finding in findings if not finding.is_harmless]
    if harmful:
        named = "; ".join(f"{each.place}: {each}" for each in harmful)
        raise ArchiveError(f"{archive.path}: {named}")
    return [_line(each) for each in findings] or ["no pickles"]


def _line(finding: Finding) -> str:
    return " ".join([f"pickle {finding.place}:", ", ".join(finding.imports) or "imports nothing"])
