# SPDX-License-Identifier: Apache-2.0
"""What travels between the stages of a model: outputs as they are, by the eyes of msgpack.

Arrays are the extension that ``msgpack.py`` describes. Where they lie in shared memory
they are looked at there, not copied.
"""

from collections.abc import Mapping
from struct import Struct
from typing import Any

import msgspec

from servekit.errors import BodyMalformed, ResultNotEncodable
from servekit.worker.codecs.msgpack import ARRAY
from servekit.worker.codecs.msgpack import codec as msgpack

__all__ = ["ValueCodec", "ValuesCodec", "value", "values"]

COUNT = Struct("<I")


class ValueCodec:
    """One output."""

    takes_views = True

    def decode(self, body: bytes, parameters: Mapping[str, str]) -> Any:  # noqa: ARG002
        """Return the value of *body*."""
        return _decode(body)

    def encode(self, output: Any) -> bytes:
        """Return *output* as bytes.

        :raises ResultNotEncodable: it holds what no stage can give to another.
        """
        return msgpack.encode(output)


class ValuesCodec:
    """A list of outputs, which the front-end can cut up: how many, how long each, they."""

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
        """Return the list *output* as bytes.

        :raises ResultNotEncodable: it is no list, or holds what no stage can give to another.
        """
        if isinstance(output, str | bytes | Mapping) or not hasattr(output, "__iter__"):
            kind = type(output).__name__
            raise ResultNotEncodable(f"output: a list for the step of each element, not a {kind}")
        parts = [msgpack.encode(part) for part in output]
        return b"".join([Struct(f"<{len(parts) + 1}I").pack(len(parts), *map(len, parts)), *parts])


def _extension(code: int, payload: memoryview) -> Any:
    if code != ARRAY:
        raise BodyMalformed(f"body: unknown extension type {code}")
    from servekit.worker.codecs.arrays import DTYPES, from_bytes

    dtype, shape, elements = _decode_array(payload)
    return from_bytes(DTYPES[dtype], shape, elements)


_decode_array = msgspec.msgpack.Decoder(tuple[str, list[int], memoryview]).decode
_decode = msgspec.msgpack.Decoder(ext_hook=_extension).decode
value = ValueCodec()
values = ValuesCodec()
