# SPDX-License-Identifier: Apache-2.0
"""The hooks of this plugin; imports no file system."""

from collections.abc import Mapping

from servekit import hookimpl

__all__ = ["register_fetchers"]

SCHEMES = ("s3", "s3a", "gs", "gcs", "az", "abfs", "hf", "sftp", "webhdfs")


@hookimpl
def register_fetchers() -> Mapping[str, str]:
    """Offer the schemes of stores that people keep weights in."""
    return dict.fromkeys(SCHEMES, "servekit_fsspec.fetching:fetch")
