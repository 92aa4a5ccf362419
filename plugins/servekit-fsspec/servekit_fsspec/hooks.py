# SPDX-License-Identifier: Apache-2.0
"""The hooks of this plugin; imports no file system."""

from collections.abc import Callable, Mapping
from pathlib import Path

from servekit import hookimpl

__all__ = ["open_archive", "register_fetchers"]

SCHEMES = ("s3", "s3a", "gs", "gcs", "az", "abfs", "hf", "sftp", "webhdfs")
ARCHIVE_SCHEMES = (*SCHEMES, "file", "http", "https")


@hookimpl
def register_fetchers() -> Mapping[str, str]:
    """Offer the schemes of stores that people keep weights in."""
    return dict.fromkeys(SCHEMES, "servekit_fsspec.fetching:fetch")


@hookimpl
def open_archive(url: str, scratch: Path, progress: Callable[[int, int], None]) -> Path | None:
    """Download an archive; ``#sha256=DIGEST`` at the end of *url* says what it must be."""
    if url.partition("://")[0] not in ARCHIVE_SCHEMES:
        return None
    from servekit_fsspec.archives import download

    return download(url, scratch, progress)
