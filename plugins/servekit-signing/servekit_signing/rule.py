# SPDX-License-Identifier: Apache-2.0
"""The rule ``signed``. Runs in: the prepare child."""

from collections.abc import Sequence

from servekit_archiver import ArchiveError, open_archive

from servekit.extension import ArchiveInfo, Kept, Refused
from servekit_signing.hooks import RULE
from servekit_signing.verifying import FileDiffers, verify

__all__ = ["judge"]


def judge(info: ArchiveInfo, trusted: Sequence[str]) -> Kept | Refused:
    """Return whether one of the *trusted* keys has signed the archive."""
    if not info.digest:
        return Refused("is a model directory, which cannot be signed", RULE)
    try:
        with open_archive(info.path) as archive:
            if archive.digest != info.digest:
                return Refused("was replaced while it was being loaded", RULE)
            verify(archive, trusted)
    except FileDiffers as error:
        return Refused(error.reason, RULE, error.file)
    except ArchiveError as error:
        return Refused(str(error), RULE)
    return Kept((RULE,))
