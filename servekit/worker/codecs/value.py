# SPDX-License-Identifier: Apache-2.0
"""The codec between the stages of a model: outputs unchanged, as msgpack with extensions.

Arrays are the extension that ``msgpack.py`` describes. In shared memory they are read in place,
not copied. Values that msgpack cannot hold have extensions here.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from struct import Struct
from typing import Any, Final

import msgspec
from msgspec.msgpack import Ext

from servekit.errors import BodyMalformed, ResultNotEncodable
from servekit.worker.codecs.json import UNFIT, is_fine_time
from servekit.worker.codecs.msgpack import ARRAY, write

__all__ = ["ValueCodec", "ValuesCodec", "value", "values"]

COUNT: Final = Struct("<I")

INTEGER: Final = 73  #: more than 64 bits: little-endian, signed
MAPPING: Final = 77  #: with a key that is an extension or a tuple: a list of pairs
TEXT: Final = 83  #: with lone surrogates
TIME: Final = 84  #: with nanoseconds: the payload of msgpack's own extension
LEAST, MOST = -(2**63), 2**64 - 1


class ValueCodec:
    """One output."""

    takes_views = True

    def decode(self, body: bytes, parameters: Mapping[str, str]) -> Any:  # noqa: ARG002
        """Return the value of *body*."""
        return _decode(body)

    def encode(self, output: Any) -> bytes:
        """Return *output* as bytes."""
        return _written(output)


class ValuesCodec:
    """A list of outputs that the front-end can split: their count, their lengths, the outputs."""

    takes_views = True

    def decode(self, body: bytes, parameters: Mapping[str, str]) -> Any:  # noqa: ARG002
        """Return the list of *body*."""
        view = memoryview(body)
        (count,) = COUNT.unpack_from(view)
        lengths = Struct(f"<{count}I").unpack_from(view, COUNT.size)
        start, found = COUNT.size * (count + 1), []
        for length in lengths:
            found.append(_decode(view[start : start + length]))
            start += length
        return found

    def encode(self, output: Any) -> bytes:
        """Return *output*, which must be a list, as bytes."""
        parts = [_written(part) for part in _elements(output)]
        return b"".join([Struct(f"<{len(parts) + 1}I").pack(len(parts), *map(len, parts)), *parts])


def _elements(output: Any) -> Iterable[Any]:
    if type(output) is list:
        return output
    from servekit.worker.codecs.foreign_arrays import as_array  # imports numpy

    array = as_array(output)
    if array is not None:
        return array
    if isinstance(output, str | bytes | Mapping) or not hasattr(output, "__iter__"):
        kind = type(output).__name__
        raise ResultNotEncodable(f"output: {kind}, expected a list for the next step")
    return output  # type: ignore[no-any-return]


def _written(output: Any) -> bytes:
    try:
        try:
            return _encode(output)
        except (OverflowError, UnicodeEncodeError):
            return _encode(_extended(output))
    except UNFIT as error:
        raise ResultNotEncodable(f"output: {error}") from error


def _write(value: Any) -> Any:
    return Ext(TIME, value.payload()) if is_fine_time(value) else write(value)


def _extended(output: Any) -> Any:
    """Return *output* with an extension for everything that msgpack cannot hold."""
    kept: dict[int, memoryview] = {}

    def keep(value: Any) -> Any:
        """Encode a value that has an extension already; ``to_builtins`` does not change a view."""
        written = _write(value)
        if not isinstance(written, Ext):
            return written
        view = memoryview(_encode(written))
        kept[id(view)] = view
        return view

    plainly = msgspec.to_builtins(output, enc_hook=keep, builtin_types=BUILTIN)
    return _marked(plainly, kept)


def _marked(value: Any, kept: Mapping[int, memoryview]) -> Any:
    if type(value) is int and not LEAST <= value <= MOST:
        return Ext(INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))
    if type(value) is str and not _is_unicode(value):
        return Ext(TEXT, value.encode("utf-8", "surrogatepass"))
    if isinstance(value, list | tuple):
        return [_marked(inner, kept) for inner in value]
    if type(value) is dict:
        pairs = [(_marked(key, kept), _marked(inner, kept)) for key, inner in value.items()]
        is_plain = not any(isinstance(key, Ext | list) for key, _ in pairs)
        return dict(pairs) if is_plain else Ext(MAPPING, _encode(pairs))
    return msgspec.Raw(value) if id(value) in kept else value


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _fine_time(payload: memoryview) -> Any:
    import msgpack

    from servekit.worker.codecs.timestamps import FineTime

    return FineTime.of(msgpack.Timestamp.from_bytes(bytes(payload)))


def _extension(code: int, payload: memoryview) -> Any:
    if code in READERS:
        return READERS[code](payload)
    if code != ARRAY:
        raise BodyMalformed(f"body: unknown extension type {code}")
    from servekit.worker.codecs.arrays import dtype_of, from_bytes

    name, shape, elements = _decode_array(payload)
    if (dtype := dtype_of(name)) is None:
        raise BodyMalformed(f"array: unknown dtype {name[:40]!r}")
    return from_bytes(dtype, shape, elements)


_decode_array = msgspec.msgpack.Decoder(tuple[str, list[int], memoryview]).decode
_decode = msgspec.msgpack.Decoder(ext_hook=_extension).decode
_encode = msgspec.msgpack.Encoder(enc_hook=_write).encode

BUILTIN = (bytes, bytearray, memoryview, datetime)
READERS: Mapping[int, Callable[[memoryview], Any]] = {
    INTEGER: lambda payload: int.from_bytes(payload, "little", signed=True),
    MAPPING: lambda payload: {
        tuple(key) if type(key) is list else key: inner for key, inner in _decode(payload)
    },
    TEXT: lambda payload: bytes(payload).decode("utf-8", "surrogatepass"),
    TIME: _fine_time,
}
value = ValueCodec()
values = ValuesCodec()
