# SPDX-License-Identifier: Apache-2.0
"""Says which part of an output cannot be written; slow, and called only when one cannot."""

import dataclasses
import reprlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec

from servekit.errors import ResultNotEncodable

__all__ = ["blame"]

DEEPEST: Final = 100
SHOWN: Final = 80

#: raises what it cannot write
Encode = Callable[[Any], bytes]


class OutputPart(NamedTuple):
    """One of what an output is made of."""

    path: str  #: below the whole: ``.x`` or ``[3]``
    value: Any
    is_key: bool = False


def blame(encode: Encode, output: Any, otherwise: str) -> str:
    """Return where *output* holds what *encode* does not write, and what that is.

    :param otherwise: what to say of an output no part of which is to blame.
    """
    path, value = "output", output
    for _ in range(DEEPEST):
        part = next((part for part in _parts(value) if _reason(encode, part.value)), None)
        if part is None:
            reason = _reason(encode, value) if path != "output" else otherwise
            return f"{path}: {reason.removeprefix('output: ')}"
        path += part.path
        if part.is_key:
            return f"{path}: a key is a {type(_key(part)).__name__}, {_shown(_key(part))}"
        value = part.value
    return "output: holds itself, or is nested too deep"


def _key(part: OutputPart) -> Any:
    return next(iter(part.value))


def _reason(encode: Encode, value: Any) -> str:
    """Return why *value* cannot be written; "" if it can."""
    try:
        encode(value)
    except ResultNotEncodable as error:
        return str(error)
    except UnicodeEncodeError:
        return "a text with a lone surrogate is not written"
    except Exception as error:  # noqa: BLE001 - of a plugin's codec, or of an object's own
        return f"{type(error).__name__}: {error}"
    return ""


def _parts(value: Any) -> Iterator[OutputPart]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield OutputPart("", {key: None}, is_key=True)
            yield OutputPart(f".{str(key)[:SHOWN]}", inner)
    elif isinstance(value, list | tuple | set | frozenset):
        for place, inner in enumerate(value):
            yield OutputPart(f"[{place}]", inner)
    elif isinstance(value, msgspec.Struct):
        yield from _fields(value, [field.name for field in msgspec.structs.fields(value)])
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from _fields(value, [field.name for field in dataclasses.fields(value)])


def _fields(value: Any, names: list[str]) -> Iterator[OutputPart]:
    for name in names:
        if hasattr(value, name):
            yield OutputPart(f".{name}", getattr(value, name))


def _shown(value: Any) -> str:
    with suppress(Exception):  # an author's object
        return reprlib.repr(value)
    return "which cannot be shown"
