# SPDX-License-Identifier: Apache-2.0
"""Opens a file of a store, and says why that is not possible."""

from typing import IO, Final, cast

import fsspec

from servekit.errors import StartupError

__all__ = ["CHUNK_BYTES", "open_file"]

CHUNK_BYTES: Final = 8 << 20  #: one request to a store each


def open_file(url: str) -> IO[bytes]:
    """Return the file at *url*, which the caller closes.

    Messages leave the URL out: its user and its query may be secrets.

    :raises StartupError: the package for its scheme is not installed.
    :raises OSError: the store does not answer, refuses us, or has no such file.
    """
    try:
        found = fsspec.open(url, "rb", block_size=CHUNK_BYTES)
    except (ImportError, ValueError) as error:  # fsspec says which package it lacks
        raise StartupError(str(error)) from error
    try:
        return cast("IO[bytes]", found.open())
    except FileNotFoundError as error:  # over HTTP, fsspec raises it for every failure
        raise FileNotFoundError(_reason(error, url)) from error


def _reason(error: BaseException, url: str) -> str:
    """Return what the first cause of *error* says, unless that is just the URL."""
    while error.__cause__ is not None:
        error = error.__cause__
    if status := getattr(error, "status", None):
        return f"the server answers {status}"
    return "no such file" if url in str(error) else str(error)
