# SPDX-License-Identifier: Apache-2.0
"""Leaves: the types that msgspec cannot make, such as arrays, pydantic models and files.

A type is a tree. Its branches are structs, lists and mappings, which msgspec decodes. A leaf
is made from the decoded value before msgspec sees it. ``type_tree.py`` finds the leaf of a type.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from servekit.mistakes import Mistake

__all__ = ["Leaf", "NotOfType"]


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
