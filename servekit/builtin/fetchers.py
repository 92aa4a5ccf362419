# SPDX-License-Identifier: Apache-2.0
"""The fetchers that come with servekit."""

from collections.abc import Mapping

from servekit.hookspecs import hookimpl

__all__ = ["register_fetchers"]


@hookimpl
def register_fetchers() -> Mapping[str, str]:
    """Offer files of this machine, and HTTP."""
    return {
        "file": "servekit.assets.fetchers:fetch_file",
        "http": "servekit.assets.http:fetch",
        "https": "servekit.assets.http:fetch",
    }
