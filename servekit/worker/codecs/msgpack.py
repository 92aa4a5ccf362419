# SPDX-License-Identifier: Apache-2.0
"""``application/msgpack``: bounded by the size of the body; arrays are an extension type.

An array is extension type 78 (``N``). Its payload is a msgpack array of three: the name of
the dtype (``"float32"``), the shape, and the elements as bytes, little-endian, in C order.
"""

import sys
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgpack
import msgspec

from servekit.errors import BodyMalformed, RequestError, ResultNotEncodable
from servekit.worker.codecs.json import MAX_DEPTH, is_fine_time, plain, too_deep

if TYPE_CHECKING:
    from servekit.worker.codecs.arrays import Lists

__all__ = ["ARRAY", "MsgpackCodec", "codec", "write"]

ARRAY = 78
TIMESTAMP = -1
CONTAINERS = frozenset({list, dict})

#: walks through a value, makes nothing of it
_scan = msgspec.msgpack.Decoder(msgspec.Raw).decode


class MsgpackCodec:
    """Decodes any msgpack value with text for keys, encodes ``{"prediction": output}``."""

    takes_views = True

    is_enveloped = True

    def decode(self, body: bytes, parameters: Mapping[str, str]) -> Any:  # noqa: ARG002
        """Return the value of *body*.

        :raises BodyMalformed: it is not msgpack, or nests too deep, or repeats a key.
        """
        if not body:
            raise BodyMalformed("body: empty")
        try:
            value = _value(body)
        except RequestError:
            raise
        except RecursionError:
            raise too_deep() from None
        except (ValueError, TypeError, OverflowError) as error:
            reason = str(error).split("\n")[0][:100] or type(error).__name__
            raise BodyMalformed(f"body: not msgpack: {reason}") from None
        return value

    def encode(self, output: Any) -> bytes:
        """Return *output* as msgpack.

        :raises ResultNotEncodable: it holds what msgpack cannot.
        :raises UnicodeEncodeError: it holds a lone surrogate.
        """
        try:
            return _encode(output)
        except UnicodeEncodeError:
            raise
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ResultNotEncodable(f"output: {error}") from error


def _unpack(body: bytes | memoryview, **hooks: Any) -> Any:
    """Return the value of *body*; what it announces is there before room is made for it."""
    _scan(body)
    return msgpack.unpackb(body, **hooks)


def _value(body: bytes | memoryview) -> Any:
    hooks = {"object_pairs_hook": _mapping, "ext_hook": _Extensions(len(body))}
    value = _unpack(body, **hooks, timestamp=3)
    if not _check_depth(value):
        return value
    from servekit.worker.codecs.timestamps import fine_times  # seldom needed

    hooks["ext_hook"] = _Extensions(len(body))
    return fine_times(msgpack.unpackb(body, **hooks, timestamp=0))


def _mapping(pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs) or not all(type(key) is str for key in mapping):
        raise BodyMalformed("body: a map repeats a key or has one that is not a text")
    return mapping


class _Extensions:
    """Reads the extensions of one body."""

    __slots__ = ("_lists", "_size")

    def __init__(self, size: int) -> None:
        """Of a body of *size* bytes."""
        self._size = size
        self._lists: Lists | None = None

    def __call__(self, code: int, payload: bytes) -> Any:
        """Return the array of *payload*.

        :raises BodyMalformed: it is not valid msgpack.
        """
        if code != ARRAY:
            raise BodyMalformed(f"body: unknown extension type {code}")
        from servekit.worker.codecs.arrays import DTYPES, Lists, from_bytes

        parts = _unpack(payload)
        is_array = type(parts) is list and [type(part) for part in parts] == [str, list, bytes]
        if not is_array or parts[0] not in DTYPES:
            raise BodyMalformed("array: not [dtype, shape, bytes] with a dtype that is known")
        array = from_bytes(DTYPES[parts[0]], parts[1], parts[2])
        self._lists = self._lists or Lists(self._size)
        self._lists.count(parts[1])
        return array


def _check_depth(value: Any) -> bool:
    """Refuse what nests deeper than ``MAX_DEPTH``; looks at every list once, in C.

    :return: whether a ``datetime`` is among it.
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
    """Return what msgspec does not know in terms of what it knows."""
    if is_fine_time(value):
        return msgspec.msgpack.Ext(TIMESTAMP, value.payload())
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.ndarray) or not value.shape:
        return plain(value)
    from servekit.worker.codecs.arrays import is_array, to_little_endian

    if not is_array(value):
        return plain(value)
    payload = [value.dtype.name, list(value.shape), to_little_endian(value).tobytes()]
    return msgspec.msgpack.Ext(ARRAY, msgspec.msgpack.encode(payload))


_encode = msgspec.msgpack.Encoder(enc_hook=write).encode
codec = MsgpackCodec()
