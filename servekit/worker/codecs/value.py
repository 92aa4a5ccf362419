# SPDX-License-Identifier: Apache-2.0
"""The codecs between steps: outputs arrive as what they were, as msgpack with extensions.

Arrays are the extension that ``msgpack.py`` describes. In shared memory they are read in place,
not copied. ``value_writer.py`` has the other extensions. Between the stages of one model, objects
of its classes travel too; between models, they are mappings.
"""

from collections.abc import Callable, Iterable, Mapping
from struct import Struct
from typing import Any, Final

import msgspec
from msgspec.msgpack import Ext

from servekit.errors import InputError, ResultNotEncodable
from servekit.extension.envelope import Rows
from servekit.worker.codecs import value_writer as extensions
from servekit.worker.codecs.json import UNFIT, is_fine_time
from servekit.worker.codecs.msgpack import ARRAY, write
from servekit.worker.codecs.value_classes import find_class, read_object
from servekit.worker.codecs.value_types import find_by_name
from servekit.worker.codecs.value_writer import Pickles, ValueWriter

__all__ = [
    "ValueCodec",
    "ValuesCodec",
    "allow_pickles",
    "as_declared",
    "model_value",
    "model_values",
    "value",
    "values",
]

COUNT: Final = Struct("<I")


class ValueCodec:
    """One output."""

    takes_views = True

    def __init__(self, *, has_classes: bool) -> None:
        """Write for a stage of the same model, which has the same classes, or for any model."""
        self._writers = [
            ValueWriter(has_classes=has_classes),
            ValueWriter(has_classes=has_classes, is_careful=True),
        ]
        self._reader = ValueReader(has_classes=has_classes)

    def decode(self, body: bytes | memoryview, parameters: Mapping[str, str]) -> Any:  # noqa: ARG002
        """Return the value of *body*, which another worker has written."""
        return self._reader.decode(body)

    def encode(self, output: Any) -> bytes:
        """Return *output* as bytes."""
        quick, careful = self._writers
        try:
            try:
                return quick.encode(output)
            except (OverflowError, UnicodeEncodeError):
                return careful.encode(output)
        except UNFIT as error:
            raise ResultNotEncodable(f"output: {error}") from error

    def allow(self, pickles: Pickles) -> None:
        """Pickle objects that nothing else can write."""
        for writer in self._writers:
            writer.pickles = pickles
        self._reader.pickles = pickles


class ValuesCodec:
    """A list of outputs that the front-end can split: their count, their lengths, the outputs."""

    takes_views = True

    def __init__(self, single: ValueCodec) -> None:
        """Write each output with *single*."""
        self._single = single

    def decode(self, body: bytes | memoryview, parameters: Mapping[str, str]) -> Any:
        """Return the list of *body*."""
        view = memoryview(body)
        (count,) = COUNT.unpack_from(view)
        lengths = Struct(f"<{count}I").unpack_from(view, COUNT.size)
        start, found = COUNT.size * (count + 1), []
        for length in lengths:
            found.append(self._single.decode(view[start : start + length], parameters))
            start += length
        return found

    def encode(self, output: Any) -> bytes:
        """Return *output*, which must be a list, as bytes."""
        parts = [self._single.encode(part) for part in _elements(output)]
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


class ValueReader:
    """Reads values, and their extensions. What it raises is a fault of the server or the model."""

    def __init__(self, *, has_classes: bool) -> None:
        """Read what a ``ValueWriter`` wrote with the same *has_classes*."""
        make = msgspec.msgpack.Decoder
        self._has_classes = has_classes
        self.pickles: Pickles | None = None
        self.decode = make(ext_hook=self._extension).decode
        self._readers: dict[int, Callable[[memoryview], Any]] = {
            ARRAY: _array,
            extensions.INTEGER: lambda payload: int.from_bytes(payload, "little", signed=True),
            extensions.MAPPING: lambda payload: dict(self.decode(payload)),
            extensions.OBJECT: self._object,
            extensions.TEXT: lambda payload: bytes(payload).decode("utf-8", "surrogatepass"),
            extensions.TIME: _fine_time,
            extensions.TUPLE: make(tuple[Any, ...], ext_hook=self._extension).decode,
            extensions.TUPLES: make(list[tuple[Any, ...]], ext_hook=self._extension).decode,
        }

    def _extension(self, code: int, payload: memoryview) -> Any:
        if self._has_classes:
            if code == extensions.CLASS:
                return read_object(*self.decode(payload))
            if code == extensions.PICKLED and self.pickles is not None:
                return self.pickles.read(payload)
        if code not in self._readers:
            raise LookupError(f"a value of another step has the extension {code}")
        return self._readers[code](payload)

    def _object(self, payload: memoryview) -> Any:
        name, written = self.decode(payload)
        found = find_by_name(name)
        if found is None and self._has_classes:
            find_class(name)  # its module may register it
            found = find_by_name(name)
        if found is None:
            raise LookupError(f"{name} is not registered in this stage: import what registers it")
        return found.read(written)


def _array(payload: memoryview) -> Any:
    from servekit.worker.codecs.arrays import dtype_of, from_bytes

    name, shape, elements = _decode_array(payload)
    if (dtype := dtype_of(name)) is None:
        raise LookupError(f"array: unknown dtype {name[:40]!r}")
    return from_bytes(dtype, shape, elements)


def _fine_time(payload: memoryview) -> Any:
    import msgpack

    from servekit.worker.codecs.timestamps import FineTime

    return FineTime.of(msgpack.Timestamp.from_bytes(bytes(payload)))


# ------------------------------------------------------------ as a stage declares them


def as_declared(check: Callable[[Any], Any], found: Any) -> Any:
    """Return what *check* makes of an output of another step.

    If it refuses an object, it gets the mapping, the list or the string that JSON has for it: a
    stage may declare another class than the one before returned.

    :raises InputError: it refuses both.
    """
    try:
        return check(found)
    except InputError:
        if type(found) is Rows:
            raise
        try:
            plain = _decode_plain(_encode_plain(found))
        except UNFIT:
            plain = found
        return check(plain)


def _write_plain(value: Any) -> Any:
    return Ext(extensions.TIME, value.payload()) if is_fine_time(value) else write(value)


_decode_array = msgspec.msgpack.Decoder(tuple[str, list[int], memoryview]).decode
_encode_plain = msgspec.msgpack.Encoder(enc_hook=_write_plain).encode

value = ValueCodec(has_classes=False)
values = ValuesCodec(value)
model_value = ValueCodec(has_classes=True)
model_values = ValuesCodec(model_value)
_decode_plain = ValueReader(has_classes=False).decode


def allow_pickles() -> None:
    """Pickle objects that nothing else can write, between the stages of this worker's model."""
    from servekit.worker.codecs.pickles import pickles

    model_value.allow(pickles)
