# SPDX-License-Identifier: Apache-2.0
"""Finds every field that is not of its type; slow, and called only when one is not."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from servekit.worker.inputs.conversion import convert
from servekit.worker.inputs.leaves import NotOfType
from servekit.worker.inputs.type_tree import MISSING, UNKNOWN, element_type, parts, without_none

__all__ = ["Mistake", "mistakes", "name_mistake"]

#: path such as ``.points[3].x``, and what is wrong there
Mistake = tuple[str, str]

LOCATED: Final = re.compile(r"(?P<message>.*?)(?: - at `\$(?P<path>.*)`)?", re.DOTALL)
NAMED: Final = re.compile(
    r"Object (?P<what>missing required|contains unknown) field `(?P<field>.*)`"
)
WHAT: Final = {"missing required": "missing", "contains unknown": "unknown field"}

MOST: Final = 100  #: mistakes of one input that are told
BLOCK: Final = 1024  #: elements of a list that are looked at in one go, in C


def mistakes(value: Any, type_: Any) -> list[Mistake]:
    """Return what keeps *value*, as decoded, from being *type_*: at most ``MOST`` mistakes."""
    return list(islice(_mistakes("", value, type_), MOST))


def name_mistake(error: Exception) -> Mistake:
    """Return where msgspec found something wrong, and what."""
    located = LOCATED.fullmatch(str(error))
    message = located["message"] if located else str(error)
    path = (located and located["path"]) or ""
    if named := NAMED.fullmatch(message):
        return f"{path}.{named['field']}", WHAT[named["what"]]
    message = message.replace("`", "")
    return path, message[:1].lower() + message[1:]


def _mistakes(path: str, value: Any, type_: Any) -> Iterator[Mistake]:
    """Yield those of the innermost parts; of the whole if no part of it is to blame."""
    if value is MISSING or value is UNKNOWN:
        yield path, "missing" if value is MISSING else "unknown field"
        return
    found = _found(value, type_)
    if not found:
        return
    is_of_a_part = False
    for part, inner, inner_type in _parts(value, without_none(type_)):
        for mistake in _mistakes(path + part, inner, inner_type):
            is_of_a_part = True
            yield mistake
    if not is_of_a_part:
        yield from ((path + below, message) for below, message in found)


def _found(value: Any, type_: Any) -> Sequence[Mistake]:
    """Return what is wrong at first sight: one mistake of msgspec, or all of a leaf."""
    try:
        convert(value, type_)
    except NotOfType as error:
        return error.mistakes
    except ValueError as error:  # of msgspec; or a key that is not Unicode
        return [name_mistake(error)]
    return ()


def _parts(value: Any, type_: Any) -> Iterator[tuple[str, Any, Any]]:
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
