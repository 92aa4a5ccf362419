# SPDX-License-Identifier: Apache-2.0
"""Remembers which archive files were read whole and found right, so that it is done once.

One small file for each archive file, named by device and inode, so they do not pile up.
"""

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["is_verified", "remember_verified"]


def is_verified(folder: Path, identity: str, digest: str) -> bool:
    """Say whether the archive file of this *identity* was found to hold *digest*."""
    try:
        return _stamp(folder, identity).read_text() == f"{identity} {digest}\n"
    except (OSError, UnicodeDecodeError):
        return False


def remember_verified(folder: Path, identity: str, digest: str) -> None:
    """Record that the archive file of this *identity* holds *digest*.

    A stamp that cannot be written costs time at the next start and nothing else.
    """
    stamp = _stamp(folder, identity)
    draft = stamp.with_suffix(f".{os.getpid()}")
    with suppress(OSError):
        try:
            draft.write_text(f"{identity} {digest}\n")
            draft.replace(stamp)
        finally:
            draft.unlink(missing_ok=True)


def _stamp(folder: Path, identity: str) -> Path:
    device, inode, *_ = identity.split()
    return folder / f"{device}-{inode}"
