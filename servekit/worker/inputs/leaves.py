# SPDX-License-Identifier: Apache-2.0
"""Leaves: the types that msgspec cannot make, such as arrays, pydantic models and files.

A type is a tree. Its branches are structs, lists and mappings, which msgspec decodes. A leaf
is made from the decoded value before msgspec sees it. ``type_tree.py`` finds the leaf of a type.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, Protocol

__all__ = ["Leaf", "Mistake", "NotOfType", "mistake_of"]

#: a path such as ``.points[3].x``, and what is wrong there
Mistake = tuple[str, str]

LOCATED: Final = re.compile(r"(?P<message>.*?)(?: - at `\$(?P<path>.*)`)?", re.DOTALL)
NAMED: Final = re.compile(
    r"Object (?P<what>missing required|contains unknown) field `(?P<field>.*)`"
)
WHAT: Final = {"missing required": "missing", "contains unknown": "unknown field"}


class NotOfType(ValueError):
    """A value does not fit its leaf; holds at least one mistake, with paths below the leaf."""

    def __init__(self, *mistakes: Mistake) -> None:
        super().__init__(mistakes[0][1])
        self.mistakes = mistakes


class Leaf(Protocol):
    """Makes values of one type."""

    declared: Mapping[str, Any] | None = None  #: dtype and shape of an array, as in a signature

    def takes(self, media_type: str) -> bool:
        """Whether a whole body of *media_type*, other than JSON or msgpack, can be the value."""

    def make(self, value: Any) -> Any:
        """Return the value made of a decoded one.

        :raises NotOfType: it does not fit.
        """

    def from_json(self, body: bytes) -> Any:
        """Return the value made of a JSON text.

        :raises NotOfType: it does not fit.
        :raises msgspec.DecodeError: *body* is not JSON.
        """


def mistake_of(error: Exception) -> Mistake:
    """Return the path and the message of an error of msgspec."""
    located = LOCATED.fullmatch(str(error))
    message = located["message"] if located else str(error)
    path = (located and located["path"]) or ""
    if named := NAMED.fullmatch(message):
        return f"{path}.{named['field']}", WHAT[named["what"]]
    message = message.replace("`", "")
    return path, message[:1].lower() + message[1:]
