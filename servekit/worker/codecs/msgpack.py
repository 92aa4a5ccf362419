# SPDX-License-Identifier: Apache-2.0
"""``application/msgpack``: bounded by the size of the body; arrays are an extension type.

An array is extension type 78 (``N``). Its payload is a msgpack array of three: the name of
the dtype (``"float32"``), the shape, and the elements as bytes, little-endian, in C order.
"""

from collections.abc import Mapping
from typing import Any

import msgpack
import msgspec

from servekit.errors import BodyMalformed, RequestError, ResultNotEncodable
from servekit.worker.codecs.json import MAX_DEPTH, plain, too_deep

__all__ = ["ARRAY", "MsgpackCodec", "codec"]

ARRAY = 78

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
            value = _unpack(body, object_pairs_hook=_mapping, ext_hook=_extension, timestamp=3)
        except RequestError:
            raise
        except RecursionError:
            raise too_deep() from None
        except (ValueError, TypeError, OverflowError) as error:
            reason = str(error).split("\n")[0][:100] or type(error).__name__
            raise BodyMalformed(f"body: not msgpack: {reason}") from None
        _check_depth(value)
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


def _mapping(pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs) or not all(type(key) is str for key in mapping):
        raise BodyMalformed("body: a map repeats a key or has one that is not a text")
    return mapping


def _extension(code: int, payload: bytes) -> Any:
    if code != ARRAY:
        raise BodyMalformed(f"body: unknown extension type {code}")
    from servekit.worker.codecs.arrays import DTYPES, from_bytes

    parts = _unpack(payload)
    is_array = type(parts) is list and [type(part) for part in parts] == [str, list, bytes]
    if not is_array or parts[0] not in DTYPES:
        raise BodyMalformed("array: not [dtype, shape, bytes] with a dtype that is known")
    return from_bytes(DTYPES[parts[0]], parts[1], parts[2])


def _check_depth(value: Any) -> None:
    """Refuse what nests deeper than ``MAX_DEPTH``; looks at every list once, in C."""
    level = [value]
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for container in level:
            if type(container) is dict:
                container = list(container.values())
            if type(container) is list and not {list, dict}.isdisjoint(map(type, container)):
                inner += [child for child in container if type(child) in (list, dict)]
        if not inner:
            return
        level = inner
    raise too_deep()


def _write(value: Any) -> Any:
    """Return what msgspec does not know in terms of what it knows."""
    plainly = plain(value)  # a TypeError if it is not numpy's
    from servekit.worker.codecs.arrays import is_array, to_little_endian

    if not is_array(value) or not value.shape:
        return plainly
    payload = [value.dtype.name, list(value.shape), to_little_endian(value).tobytes()]
    return msgspec.msgpack.Ext(ARRAY, msgspec.msgpack.encode(payload))


_encode = msgspec.msgpack.Encoder(enc_hook=_write).encode
codec = MsgpackCodec()
