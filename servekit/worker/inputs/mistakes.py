# SPDX-License-Identifier: Apache-2.0
"""Finds every field that is not of its type. Slow, so called only for inputs that are refused."""

from collections.abc import Iterator, Sequence
from itertools import islice
from types import GenericAlias
from typing import Any, Final

from servekit.mistakes import Mistake, mistake_of
from servekit.worker.inputs.conversion import convert
from servekit.worker.inputs.leaves import NotOfType
from servekit.worker.inputs.type_tree import (
    MISSING,
    SHOWN_KEY,
    UNKNOWN,
    element_type,
    key_type,
    parts,
    type_for,
)

__all__ = ["mistakes"]

MAX_MISTAKES: Final = 100  #: reported for one input
BLOCK: Final = 1024  #: elements of a list that msgspec checks at once


def mistakes(value: Any, type_: Any) -> list[Mistake]:
    """Return what keeps a decoded *value* from being of *type_*: at most ``MAX_MISTAKES``."""
    return list(islice(_mistakes("", value, type_), MAX_MISTAKES))


def _mistakes(path: str, value: Any, type_: Any) -> Iterator[Mistake]:
    """Yield the mistakes of the innermost parts; those of the whole if all parts are right."""
    if value is MISSING or value is UNKNOWN:
        yield path, "missing" if value is MISSING else "unknown field"
        return
    found = _found(value, type_)
    if not found:
        return
    is_of_a_part = False
    type_ = type_for(value, type_)
    for below, message in _of_keys(value, type_):
        is_of_a_part = True
        yield path + below, message
    for part, inner, inner_type in _suspects(value, type_):
        for mistake in _mistakes(path + part, inner, inner_type):
            is_of_a_part = True
            yield mistake
    if not is_of_a_part:
        yield from ((path + below, message) for below, message in found)


def _found(value: Any, type_: Any) -> Sequence[Mistake]:
    """Return the first mistake that msgspec finds, or all those of a leaf."""
    try:
        convert(value, type_)
    except NotOfType as error:
        return error.mistakes
    except ValueError as error:  # msgspec raised it, or a string is not Unicode
        return [mistake_of(error)]
    return ()


def _of_keys(value: Any, type_: Any) -> Iterator[Mistake]:
    """Yield the mistakes of the keys of a mapping, which need not be strings."""
    keys = key_type(type_) if isinstance(value, dict) else None
    mapping = GenericAlias(dict, (keys, Any))
    if keys is None or not _found(dict.fromkeys(value), mapping):
        return
    for key in value:
        for _, message in _found({key: None}, mapping):
            yield f"[{str(key)[:SHOWN_KEY]}]", message


def _suspects(value: Any, type_: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield path, value and type of the parts that may be wrong."""
    element = element_type(type_)
    if isinstance(value, list) and element is not None:
        yield from _elements(value, element)
    else:
        for part in parts(value, type_):
            yield part.path, part.value, part.type


def _elements(values: list[Any], type_: Any) -> Iterator[tuple[str, Any, Any]]:
    for start in range(0, len(values), BLOCK):
        block = values[start : start + BLOCK]
        if _found(block, list[type_]):
            for place, inner in enumerate(block, start):
                yield f"[{place}]", inner, type_
