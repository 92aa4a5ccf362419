# SPDX-License-Identifier: Apache-2.0
"""Content codings (RFC 9110 8.4.1), both ways: gzip, deflate, and zstd with a library."""

from __future__ import annotations

import importlib
import zlib
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from servekit.errors import StartupError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Coding", "Decompressor", "coding"]

LEVEL = 1  #: a body that is sent once is not worth a higher level
#: ``wbits`` of zlib: a window of 32 KiB, and the frame of gzip or of zlib
GZIP, DEFLATE = 31, 15
ZSTD = ("compression.zstd", "backports.zstd")  #: Python 3.14 has the first one
ZSTD_WINDOW_LOG = 23  #: 8 MiB (RFC 9659 3.1): frames that ask for a larger window are refused


class Decompressor(Protocol):
    """Reads one frame. The interface of Python's decompressors for bz2, lzma and zstd."""

    @property
    def eof(self) -> bool:
        """Whether the frame is complete."""

    @property
    def needs_input(self) -> bool:
        """Whether all input so far has been decompressed."""

    @property
    def unused_data(self) -> bytes:
        """The input after the frame."""

    def decompress(self, data: Any, max_length: int) -> bytes:
        """Return at most *max_length* bytes from *data* and the input that is left."""


class Coding(NamedTuple):
    """How bodies in one coding are written and read."""

    compress: Callable[[Any], bytes]
    decompressor: Callable[[], Decompressor]
    error: type[Exception]  #: raised by ``Decompressor.decompress``


class ZlibDecompressor:
    """The ``Decompressor`` of gzip and deflate: zlib hands input that is left to its caller."""

    def __init__(self, frame: int) -> None:
        self._zlib = zlib.decompressobj(frame)

    @property
    def eof(self) -> bool:
        """Whether the member is complete."""
        return self._zlib.eof

    @property
    def needs_input(self) -> bool:
        """Whether all input so far has been decompressed."""
        return not self._zlib.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        """The input after the member."""
        return self._zlib.unused_data

    def decompress(self, data: Any, max_length: int) -> bytes:
        """Return at most *max_length* bytes."""
        rest = self._zlib.unconsumed_tail
        return self._zlib.decompress(rest + data if rest else data, max_length)


def coding(name: str) -> Coding:
    """Return the coding called *name*: ``gzip``, ``deflate`` or ``zstd``.

    :raises StartupError: its library is not installed.
    """
    if name == "zstd":
        return _zstd()
    frame = {"gzip": GZIP, "deflate": DEFLATE}[name]
    compress = partial(zlib.compress, level=LEVEL, wbits=frame)
    return Coding(compress, partial(ZlibDecompressor, frame), zlib.error)


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
    raise StartupError("compression: zstd needs a library: pip install 'servekit[zstd]'")
