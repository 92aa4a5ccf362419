# SPDX-License-Identifier: Apache-2.0
"""``application/msgpack``, within limits by the size of the body; arrays are an extension type.

An array is extension type 78 (``N``). Its payload is a msgpack array of three elements: the name
of the dtype (``"float32"``), the shape, and the elements as bytes, little-endian, in C order.
"""

import sys
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgpack
import msgspec

from servekit.errors import BodyMalformed, RequestError, ResultNotEncodable
from servekit.worker.codecs.json import MAX_DEPTH, UNFIT, is_fine_time, plain, too_deep

if TYPE_CHECKING:
    from servekit.worker.codecs.arrays import Lists

__all__ = ["ARRAY", "MsgpackCodec", "codec", "write"]

ARRAY: Final = 78
LARGE: Final = 1 << 16  #: bytes of an array from which a view of it costs less than a copy
TIMESTAMP: Final = -1
CONTAINERS: Final = frozenset({list, dict})

#: checks that a body is msgpack, and makes nothing of it
_scan = msgspec.msgpack.Decoder(msgspec.Raw).decode


class MsgpackCodec:
    """Decodes any msgpack value with strings for keys, encodes ``{"prediction": output}``."""

    takes_views = True
    is_enveloped = True

    def decode(self, body: bytes, parameters: Mapping[str, str]) -> Any:  # noqa: ARG002
        """Return the value of *body*, which must not repeat a key or be nested too deep."""
        if not body:
            raise BodyMalformed("body: empty")
        try:
            return _value(body)
        except RequestError:
            raise
        except RecursionError:
            raise too_deep() from None
        except (ValueError, TypeError, OverflowError) as error:
            reason = str(error).split("\n")[0][:100] or type(error).__name__
            raise BodyMalformed(f"body: not msgpack: {reason}") from None

    def encode(self, output: Any) -> bytes:
        """Return *output* as msgpack; ``UnicodeEncodeError`` if it holds a lone surrogate."""
        try:
            return _encode(output)
        except UnicodeEncodeError:
            raise
        except UNFIT as error:
            raise ResultNotEncodable(f"output: {error}") from error


def _unpack(body: bytes | memoryview, **hooks: Any) -> Any:
    """Return the value of *body*, once it is known to hold everything it announces."""
    _scan(body)
    return msgpack.unpackb(body, **hooks)


def _value(body: bytes | memoryview) -> Any:
    hooks = {"object_pairs_hook": _mapping, "ext_hook": ArrayReader(len(body))}
    value = _unpack(body, **hooks, timestamp=3)
    if not _check_depth(value):
        return value
    from servekit.worker.codecs.timestamps import fine_times  # seldom needed

    hooks["ext_hook"] = ArrayReader(len(body))
    return fine_times(msgpack.unpackb(body, **hooks, timestamp=0))


def _mapping(pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs) or not all(type(key) is str for key in mapping):
        raise BodyMalformed("body: a map has a duplicate key, or one that is not a string")
    return mapping


class ArrayReader:
    """Reads the extensions of one body, all of which have to be arrays."""

    __slots__ = ("_lists", "_size")

    def __init__(self, size: int) -> None:
        """Limit the arrays to those that a body of *size* bytes may hold."""
        self._size = size
        self._lists: Lists | None = None

    def __call__(self, code: int, payload: bytes) -> Any:
        """Return the array of *payload*."""
        if code != ARRAY:
            raise BodyMalformed(f"body: unknown extension type {code}")
        from servekit.worker.codecs.arrays import Lists, dtype_of, from_bytes

        parts = _unpack(payload)
        is_array = type(parts) is list and [type(part) for part in parts] == [str, list, bytes]
        dtype = dtype_of(parts[0]) if is_array else None
        if dtype is None:
            raise BodyMalformed("array: not [dtype, shape, bytes] with a known dtype")
        array = from_bytes(dtype, parts[1], parts[2])
        self._lists = self._lists or Lists(self._size)
        self._lists.count(parts[1])
        return array


def _check_depth(value: Any) -> bool:
    """Refuse a value that nests deeper than ``MAX_DEPTH``; one step for each list or mapping.

    :return: whether it holds a ``datetime``.
    """
    level: list[Any] = [[value]]
    has_times = False
    for _ in range(MAX_DEPTH + 1):
        inner: list[Any] = []
        for container in level:
            children = container.values() if type(container) is dict else container
            kinds = set(map(type, children))
            has_times |= datetime in kinds
            if not CONTAINERS.isdisjoint(kinds):
                inner += [child for child in children if type(child) in CONTAINERS]
        if not inner:
            return has_times
        level = inner
    raise too_deep()


def write(value: Any) -> Any:
    """Return a *value* of a type that msgspec does not know as one that it does."""
    if is_fine_time(value):
        return msgspec.msgpack.Ext(TIMESTAMP, value.payload())
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.ndarray) or not value.shape:
        return plain(value)
    from servekit.worker.codecs.arrays import is_array, to_little_endian

    if not is_array(value):
        return plain(value)
    elements = to_little_endian(value)
    is_large = elements.nbytes >= LARGE
    content = elements.reshape(-1).view(numpy.uint8).data if is_large else elements.tobytes()
    payload = [value.dtype.name, list(value.shape), content]
    return msgspec.msgpack.Ext(ARRAY, msgspec.msgpack.encode(payload))


_encode = msgspec.msgpack.Encoder(enc_hook=write).encode
codec = MsgpackCodec()
