# SPDX-License-Identifier: Apache-2.0
"""Inputs of an annotated type: decoded straight into it, or refused field by field."""

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from servekit.errors import BodyMalformed, BootError, InputError
from servekit.mistakes import mistake_of
from servekit.worker.codecs.json import decode_json, read_json, read_typed_json
from servekit.worker.inputs.conversion import as_made, convert
from servekit.worker.inputs.input_kind import owned, refusal, with_whole_numbers
from servekit.worker.inputs.leaves import NotOfType
from servekit.worker.inputs.media_leaf import MediaLeaf
from servekit.worker.inputs.mistakes import mistakes
from servekit.worker.inputs.type_tree import (
    fields_of,
    holds_leaf,
    leaf_of,
    types_within,
    without_none,
)

__all__ = ["LargeFields", "TypedInput"]

TIMESTAMPS: Final = "servekit.worker.codecs.timestamps"
#: raised for a value that is not of the type; the last one for some lone surrogates
UNFIT: Final = (NotOfType, msgspec.ValidationError, UnicodeEncodeError)

#: a JSON body to an input
ReadJson = Callable[[bytes], Any]

_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class TypedInput:
    """Checks every input against a type; a batch is a list of instances."""

    batches = None

    def __init__(self, type_: Any, place: str = "") -> None:
        """Compile the decoder of *type_*.

        :param place: where its author wrote it, `` (service.py:12)``.
        :raises BootError: inputs cannot be decoded into it.
        """
        self._type = type_
        try:
            decode = msgspec.json.Decoder(type_, dec_hook=as_made).decode
            self._from_json = self._reader(decode)
            for each in types_within(type_):
                if isinstance(leaf := leaf_of(each), MediaLeaf):
                    leaf.prepare()
        except Exception as error:  # noqa: BLE001 - an author's annotations may raise anything
            name = getattr(type_, "__name__", type_)
            reason = f"{str(error) or type(error).__name__}{place}"
            raise BootError(f"predict: inputs cannot be decoded into {name}: {reason}") from None

    def _reader(self, decode: ReadJson) -> ReadJson:
        """Return what makes an input of a JSON text in as few steps as its type allows."""
        if leaf := leaf_of(self._type):
            return lambda body: read_typed_json(leaf.from_json, body)
        if not holds_leaf(self._type):
            return lambda body: read_typed_json(decode, body)
        read = LargeFields(self._type).read
        return lambda body: convert(read(body) or decode_json(body), self._type)

    def decode_json(self, body: bytes) -> Any:
        """Decode *body* straight into the type."""
        try:
            return self._from_json(body)
        except UNFIT as error:
            return self._with_whole_numbers(decode_json(body), error)

    def check(self, value: Any) -> Any:
        """Convert a decoded value."""
        value = owned(value)
        try:
            return convert(value, self._type)
        except UNFIT as error:
            if TIMESTAMPS in sys.modules:  # a timestamp may be too fine for the type
                with suppress(*UNFIT):
                    return convert(sys.modules[TIMESTAMPS].rounded(value), self._type)
            return self._with_whole_numbers(value, error)
        except RecursionError:
            raise InputError("nested too deep") from None

    def _with_whole_numbers(self, value: Any, error: Exception) -> Any:
        """Convert *value* with integers for floats such as ``1.0``.

        :param error: why *value* as it is was refused.
        :raises InputError: that does not help; names every wrong field of *value*.
        """
        with suppress(*UNFIT):
            return convert(with_whole_numbers(value), self._type)
        first = error.mistakes if isinstance(error, NotOfType) else [mistake_of(error)]
        found = first if leaf_of(self._type) else mistakes(value, self._type) or first
        raise refusal([(path.removeprefix("."), message) for path, message in found]) from None


class LargeFields:
    """Decodes large objects as ``decode_json`` does, but makes arrays of long lists directly."""

    def __init__(self, type_: Any) -> None:
        """Look for arrays among the fields of *type_*."""
        types = fields_of(without_none(type_)).items()
        leaves = {name: leaf_of(without_none(each)) for name, each in types}
        self._arrays: dict[str, Any] = {
            name: leaf for name, leaf in leaves.items() if leaf is not None and leaf.declared
        }
        self._is_large: Callable[[bytes], bool] = lambda _body: False
        if self._arrays:
            from servekit.worker.inputs.json_arrays import is_large  # imports numpy

            self._is_large = is_large

    def read(self, body: bytes) -> Mapping[str, Any] | None:
        """Return the fields of *body*; ``None``: go the slow way, which says what is wrong."""
        if not self._is_large(body):
            return None
        try:
            fields = read_json(_decode_fields, body)
            return {name: self._value(name, bytes(raw)) for name, raw in fields.items()}
        except (BodyMalformed, msgspec.ValidationError):
            return None

    def _value(self, name: str, text: bytes) -> Any:
        array = self._arrays[name].read_large(text) if name in self._arrays else None
        return decode_json(text) if array is None else array
