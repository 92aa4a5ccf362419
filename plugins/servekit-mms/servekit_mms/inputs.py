# SPDX-License-Identifier: Apache-2.0
"""The inputs of a signature of MMS: their types, and the values that a service class gets.

An input of ``application/json`` is a Python literal or JSON; one of ``image/jpeg`` is a file, or
base64 in a field of text.
"""

from __future__ import annotations

import ast
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from servekit import InputError
from servekit.extension import read_json
from servekit.types import File
from servekit_mms.archives import JPEG
from servekit_mms.description import field_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit_mms.archives import LegacySignature, SignedTensor

__all__ = ["InputReader", "jpeg_bytes", "jpeg_text", "output_type"]

LARGEST_LITERAL: Final = 1 << 18  #: characters of a Python literal, which takes 500 times as much
DEEPEST: Final = 100  #: brackets of a Python literal
START_OF_JPEG: Final = b"\xff\xd8"
#: the errors of ``ast.literal_eval`` for text that is not a literal
NO_LITERAL: Final = (ValueError, SyntaxError, TypeError, RecursionError, MemoryError)


class InputReader:
    """Makes the list of inputs that ``inference`` gets."""

    def __init__(self, signature: LegacySignature) -> None:
        """Declare a field for each input of *signature*."""
        is_image = signature.input_type == JPEG
        self._read: Callable[[str, Any], Any] = _image if is_image else _value
        #: names of attributes, which are always valid in Python, to the names of parts
        self._names = {f"input_{at}": each.data_name for at, each in enumerate(signature.inputs)}
        declare = _image_type if is_image else _value_type
        fields = [
            (name, declare(tensor))
            for name, tensor in zip(self._names, signature.inputs, strict=True)
        ]
        self.type = msgspec.defstruct("Inputs", fields, rename=self._names)

    def read(self, sent: Struct) -> list[Any]:
        """Return the inputs in the order of the signature.

        :raises InputError: one is not what the signature declares.
        """
        return [self._read(name, getattr(sent, field)) for field, name in self._names.items()]


def output_type(signature: LegacySignature) -> Any:
    """Return the type of a prediction: a picture in base64, or anything."""
    if signature.output_type != JPEG:
        return Any
    says = {"contentMediaType": JPEG}
    return Annotated[bytes, Meta(extra_json_schema=says)]


def jpeg_text(output: Any) -> Any:
    """Return a picture, which a service class gives as bytes or as base64, as base64."""
    if not isinstance(output, bytes | bytearray):
        return output
    content = bytes(output)
    return b64encode(content).decode() if content[:2] == START_OF_JPEG else content.decode("ascii")


def jpeg_bytes(text: str) -> bytes:
    """Return the picture that *text* has in base64.

    :raises ValueError: it has none.
    """
    return b64decode(text, validate=True)


def _image_type(tensor: SignedTensor) -> Any:
    return Annotated[File, Meta(description=field_text(tensor, is_file=True))]


def _value_type(tensor: SignedTensor) -> Any:
    # without a type: a check would make an empty list of it, with which most service classes fail
    return Annotated[Any, Meta(description=field_text(tensor, is_file=False))]


def _image(name: str, file: File) -> bytes:
    """Return the JPEG that *file* is, or has in base64."""
    if file.name or file.content_type:
        given = file.content_type.partition(";")[0].strip().lower()
        if given != JPEG:
            hint = f"-F '{name}=@picture.jpg;type={JPEG}'"
            raise _refused(name, f"{JPEG} is expected but {given or 'no type'} is given; {hint}")
        return file.content
    if file.content[:2] == START_OF_JPEG:
        return file.content
    try:
        found = b64decode(b"".join(file.content.split()), validate=True)
    except ValueError:
        found = b""
    if not found:
        raise _refused(name, f"a part of {JPEG} is expected, or base64")
    return found


def _value(name: str, value: Any) -> Any:
    """Return the list or object in *value*, which may be the text of a Python literal."""
    if isinstance(value, bytes):  # a file without a type that is decoded
        value = _json_of(name, value)
    if isinstance(value, str):
        value = _literal(name, value)
    if not isinstance(value, list | dict):
        kind = type(value).__name__
        raise _refused(name, f"a list or an object is expected but got {kind}")
    return value


def _json_of(name: str, content: bytes) -> Any:
    try:
        return read_json(content, object)
    except msgspec.DecodeError:
        pass
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise _refused(name, "neither JSON nor a Python literal") from None


def _literal(name: str, text: str) -> Any:
    if len(text) > LARGEST_LITERAL:
        limit = f"a Python literal of {len(text)} characters, limit {LARGEST_LITERAL}; send JSON"
        raise _refused(name, limit)
    if _depth(text) > DEEPEST:
        raise _refused(name, f"more than {DEEPEST} brackets within one another")
    try:
        return ast.literal_eval(text.strip())
    except NO_LITERAL:
        raise _refused(name, "neither JSON nor a Python literal") from None


def _depth(text: str) -> int:
    """Return how many brackets of *text* are open at most; those in strings count, too."""
    deepest = depth = 0
    for character in text:
        if character in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in ")]}":
            depth -= 1
    return deepest


def _refused(name: str, reason: str) -> InputError:
    return InputError(f"{name}: {reason}", [{"field": name, "message": reason}])
