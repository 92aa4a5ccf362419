# SPDX-License-Identifier: Apache-2.0
"""The content codings there are (RFC 9110 8.4.1), both ways: gzip, and zstd with its library."""

from __future__ import annotations

import importlib
import zlib
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from servekit.errors import StartupError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Coding", "Decompressor", "coding"]

LEVEL = 1  #: of gzip and zstd: what is sent once is not worth more
GZIP = 31  #: of zlib: a window of 32 KiB, and gzip's frame
ZSTD = ("compression.zstd", "backports.zstd")  #: Python 3.14 has it
ZSTD_WINDOW_LOG = 23  #: 8 MiB at most (RFC 9659 3.1): what a frame asks for is not just believed


class Decompressor(Protocol):
    """Reads one frame; as Python's own for bz2, lzma and zstd do."""

    @property
    def eof(self) -> bool:
        """The frame is whole."""

    @property
    def needs_input(self) -> bool:
        """Nothing more comes out of what went in."""

    @property
    def unused_data(self) -> bytes:
        """What came behind the frame."""

    def decompress(self, data: Any, max_length: int) -> bytes:
        """Return at most *max_length* bytes of what is in *data* and in what is left of before."""


class Coding(NamedTuple):
    """One of them."""

    compress: Callable[[Any], bytes]
    decompressor: Callable[[], Decompressor]
    error: type[Exception]  #: which a decompressor raises


class GzipDecompressor:
    """zlib's, which leaves what it did not come to with its caller."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(GZIP)

    @property
    def eof(self) -> bool:
        """The member is whole."""
        return self._zlib.eof

    @property
    def needs_input(self) -> bool:
        """Nothing more comes out of what went in."""
        return not self._zlib.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        """What came behind the member."""
        return self._zlib.unused_data

    def decompress(self, data: Any, max_length: int) -> bytes:
        """Return at most *max_length* bytes."""
        rest = self._zlib.unconsumed_tail
        return self._zlib.decompress(rest + data if rest else data, max_length)


def coding(name: str) -> Coding:
    """Return the coding of this *name*.

    :raises StartupError: there is no library for it.
    """
    return _zstd() if name == "zstd" else Coding(gzip, GzipDecompressor, zlib.error)


def gzip(body: Any) -> bytes:
    """Compress *body* with gzip."""
    return zlib.compress(body, LEVEL, GZIP)


def _zstd() -> Coding:
    for name in ZSTD:
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        limits = {module.DecompressionParameter.window_log_max: ZSTD_WINDOW_LOG}
        return Coding(
            partial(module.compress, level=LEVEL),
            partial(module.ZstdDecompressor, options=limits),
            module.ZstdError,
        )
    raise StartupError("compression: zstd needs a library, pip install 'servekit[zstd]'")
