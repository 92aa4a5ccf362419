# SPDX-License-Identifier: Apache-2.0
"""Finds the fetcher of a scheme; fetches files of this machine."""

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from servekit.errors import PluginError
from servekit.plugins import PluginManager, choose, collect, import_target

__all__ = ["Fetcher", "fetch_file", "find_fetcher"]

#: URL and a position in its content to the chunks from there on
Fetcher = Callable[[str, int], Iterator[bytes]]

CHUNK_BYTES = 1 << 20


def find_fetcher(url: str, manager: PluginManager) -> Fetcher:
    """Import what fetches *url*; a plugin's fetcher replaces the built-in one.

    :raises PluginError: no plugin does, or two do, or the fetcher cannot be imported.
    """
    scheme = url.partition(":")[0]
    offered = collect(manager, "register_fetchers")
    if scheme not in offered:
        known = ", ".join(sorted(offered))
        raise PluginError(f"{url}: no plugin fetches {scheme}: URLs; known: {known}")
    fetcher: Fetcher = import_target(choose(f"fetcher of {scheme}:", offered[scheme]))
    return fetcher


def fetch_file(url: str, start: int) -> Iterator[bytes]:
    """Yield the bytes of ``file:///path`` from *start* on."""
    with Path(unquote(urlsplit(url).path)).open("rb") as file:
        file.seek(start)
        while chunk := file.read(CHUNK_BYTES):
            yield chunk
