# SPDX-License-Identifier: Apache-2.0
"""Compares an archive with the statement that a trusted key has signed."""

from collections.abc import Iterable
from pathlib import Path

from servekit_archiver import Archive, ArchiveError

from servekit_signing.bundle import open_bundle
from servekit_signing.keys import fingerprint, public_keys
from servekit_signing.statement import digests_of, read_statement

__all__ = ["FileDiffers", "verify"]


class FileDiffers(ArchiveError):
    """A file is not as it was when the archive was signed."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(f"{file}: {reason}")
        self.file, self.reason = file, reason


def verify(archive: Archive, trusted: Iterable[str | Path]) -> str:
    """Return the fingerprint of the trusted key that has signed *archive*.

    The files themselves are not read: they have been compared with the manifest.

    :raises FileDiffers: it was changed after it was signed.
    :raises ArchiveError: it is not signed by such a key, or a key cannot be read.
    """
    keys = public_keys(trusted)
    bundle = archive.read_signature()
    if not bundle:
        raise ArchiveError("is not signed")
    statement, key = open_bundle(bundle, keys)
    signed, found = read_statement(statement), digests_of(archive)
    for name in sorted({*signed, *found}):
        if name not in signed:
            raise FileDiffers(name, "was added after the archive was signed")
        if name not in found:
            raise FileDiffers(name, "was removed after the archive was signed")
        if signed[name] != found[name]:
            raise FileDiffers(name, "was changed after the archive was signed")
    return fingerprint(key)
