# SPDX-License-Identifier: Apache-2.0
"""Finds the part of an output that cannot be written. Slow, so called only for such outputs."""

import dataclasses
import reprlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec

from servekit.errors import ResultNotEncodable

__all__ = ["Encode", "find_mistake"]

DEEPEST: Final = 100
KEY_CHARS: Final = 80  #: in a path

#: raises if it cannot write the value
Encode = Callable[[Any], bytes]


class OutputPart(NamedTuple):
    """One element, entry or field of an output."""

    path: str  #: below the whole: ``.x`` or ``[3]``
    value: Any
    is_key: bool = False  #: then ``value`` is a mapping with this one key


def find_mistake(encode: Encode, output: Any, otherwise: str) -> str:
    """Return where *output* holds something that *encode* cannot write, and what it is.

    :param otherwise: what is wrong with *output* if all its parts can be written.
    """
    path, value = "output", output
    for _ in range(DEEPEST):
        part = next((part for part in _parts(value) if _reason(encode, part.value)), None)
        if part is None:
            reason = _reason(encode, value) if path != "output" else otherwise
            return f"{path}: {reason.removeprefix('output: ')}"
        path += part.path
        value = part.value
        if part.is_key:
            (key,) = value
            return f"{path}: a key is a {type(key).__name__}, {_shown(key)}"
    return "output: contains itself, or is nested too deep"


def _reason(encode: Encode, value: Any) -> str:
    """Return why *value* cannot be written; "" if it can."""
    try:
        encode(value)
    except ResultNotEncodable as error:
        return str(error)
    except UnicodeEncodeError:
        return "a string with a lone surrogate cannot be written"
    except Exception as error:  # noqa: BLE001 - of a plugin's codec, or of an author's object
        return f"{type(error).__name__}: {error}"
    return ""


def _parts(value: Any) -> Iterator[OutputPart]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield OutputPart("", {key: None}, is_key=True)
            yield OutputPart(f".{str(key)[:KEY_CHARS]}", inner)
    elif isinstance(value, list | tuple | set | frozenset):
        for place, inner in enumerate(value):
            yield OutputPart(f"[{place}]", inner)
    elif isinstance(value, msgspec.Struct):
        yield from _fields(value, [field.name for field in msgspec.structs.fields(value)])
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from _fields(value, [field.name for field in dataclasses.fields(value)])
    elif fields := getattr(type(value), "__attrs_attrs__", ()):
        yield from _fields(value, [field.name for field in fields])


def _fields(value: Any, names: list[str]) -> Iterator[OutputPart]:
    for name in names:
        if hasattr(value, name):
            yield OutputPart(f".{name}", getattr(value, name))


def _shown(value: Any) -> str:
    with suppress(Exception):  # an author's object
        return reprlib.repr(value)
    return "which cannot be shown"
