# SPDX-License-Identifier: Apache-2.0
"""Inputs of an annotated type: decoded straight into it, or refused field by field."""

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from servekit.errors import BootError, InputError
from servekit.worker.codecs.json import decode_json, read_typed_json
from servekit.worker.inputs.conversion import convert, given, holds_leaf
from servekit.worker.inputs.form_rules import prepare_readers
from servekit.worker.inputs.input_kind import owned, refusal
from servekit.worker.inputs.leaves import NotOfType, leaf_of
from servekit.worker.inputs.mistakes import mistakes, name_mistake
from servekit.worker.inputs.whole import with_whole_numbers

__all__ = ["TypedInput"]

TIMESTAMPS: Final = "servekit.worker.codecs.timestamps"
ARRAYS: Final = "servekit.worker.inputs.array_leaf"  #: imported with the first array in a type


class TypedInput:
    """Checks every input against a type; a batch is a list of instances."""

    def __init__(self, type_: Any, place: str = "") -> None:
        """Compile the decoder of *type_*.

        :param place: where its author wrote it, `` (service.py:12)``.
        :raises BootError: inputs cannot be decoded into it.
        """
        self._type = type_
        try:
            decode = msgspec.json.Decoder(type_, dec_hook=given).decode
            self._from_json = self._reader(decode)
            prepare_readers(type_)
        except Exception as error:  # noqa: BLE001 - an author's annotations may raise anything
            name = getattr(type_, "__name__", type_)
            reason = f"{str(error) or type(error).__name__}{place}"
            raise BootError(f"predict: inputs cannot be decoded into {name}: {reason}") from None

    def _reader(self, decode: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
        """Return what makes an input of a JSON text in as few steps as its type allows."""
        if leaf := leaf_of(self._type):
            return lambda body: read_typed_json(leaf.from_json, body)
        if holds_leaf(self._type):
            return self._reader_of_fields()
        return lambda body: read_typed_json(decode, body)

    def _reader_of_fields(self) -> Callable[[bytes], Any]:
        if ARRAYS not in sys.modules:  # none is an array
            return lambda body: convert(decode_json(body), self._type)
        from servekit.worker.inputs.large_fields import LargeFields

        read = LargeFields(self._type).read
        return lambda body: convert(read(body) or decode_json(body), self._type)

    def decode_json(self, body: bytes) -> Any:
        """Decode *body* straight into the type.

        :raises InputError: it is not of the type.
        """
        try:
            return self._from_json(body)
        except (NotOfType, msgspec.ValidationError) as error:
            return self._whole(decode_json(body), error)

    def check(self, value: Any) -> Any:
        """Convert a decoded value.

        :raises InputError: it is not of the type.
        """
        try:
            return convert(owned(value), self._type)
        except (NotOfType, msgspec.ValidationError) as error:
            return self._convert_rounded(value, error)
        except RecursionError:
            raise InputError("nested too deep") from None

    def _convert_rounded(self, value: Any, error: NotOfType | msgspec.ValidationError) -> Any:
        """Convert *value* if its timestamps are too fine for the type, and no more is wrong."""
        if TIMESTAMPS not in sys.modules:  # there are none
            return self._whole(owned(value), error)
        try:
            return convert(sys.modules[TIMESTAMPS].rounded(owned(value)), self._type)
        except (NotOfType, msgspec.ValidationError):
            return self._whole(owned(value), error)

    def _whole(self, value: Any, error: NotOfType | msgspec.ValidationError) -> Any:
        """Convert *value* with ``1.0`` for 1, or refuse it as *error* does.

        :raises InputError: it is not of the type so either.
        """
        try:
            return convert(with_whole_numbers(value), self._type)
        except (NotOfType, msgspec.ValidationError):
            raise self._refused(value, error) from None

    def _refused(self, value: Any, error: NotOfType | msgspec.ValidationError) -> InputError:
        """Return the refusal that names every field, or the one that was stumbled over."""
        first = error.mistakes if isinstance(error, NotOfType) else [name_mistake(error)]
        found = first if leaf_of(self._type) else mistakes(owned(value), self._type) or first
        return refusal([(path.removeprefix("."), message) for path, message in found])

    def batches(self, inputs: Sequence[Any]) -> Iterable[tuple[None, Any]]:
        """Yield one list."""
        return ((None, inputs),)
