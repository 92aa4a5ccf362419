# SPDX-License-Identifier: Apache-2.0
"""The hook of this plugin; imports no HTTP client."""

from collections.abc import Callable
from pathlib import Path

from servekit import hookimpl

__all__ = ["open_archive"]


@hookimpl
def open_archive(url: str, scratch: Path, progress: Callable[[int, int], None]) -> Path | None:
    """Download the archive that ``oci://REGISTRY/REPOSITORY:TAG`` names."""
    if not url.startswith("oci://"):
        return None
    from servekit_oci.pulling import pull

    return pull(url, scratch, progress)
