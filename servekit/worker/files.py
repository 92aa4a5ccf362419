# SPDX-License-Identifier: Apache-2.0
"""Which bodies, and which parts of a form, an annotated type wants as files or as plain text."""

import typing
from collections.abc import Callable
from types import UnionType
from typing import Any, NamedTuple

from servekit.types import TextPart
from servekit.worker.leaves import leaf_of
from servekit.worker.media_leaf import MediaLeaf
from servekit.worker.structure import element_type, fields_of, types_within, without_none

__all__ = ["NO_FILES", "FileRules", "file_rules", "prepare_readers"]


class FileRules(NamedTuple):
    """What no codec gets to see."""

    is_file: Callable[[str], bool]  #: whether a whole body of this media type is a file
    files: frozenset[str]  #: names of parts
    texts: frozenset[str]
    lists: frozenset[str]  #: names of which there may be several parts


def _never(_media_type: str) -> bool:
    return False


NO_FILES = FileRules(_never, frozenset(), frozenset(), frozenset())


def file_rules(type_: Any) -> FileRules:
    """Return the rules of inputs of *type_*."""
    leaf = leaf_of(without_none(type_))
    fields = fields_of(without_none(type_))
    elements = {name: element_type(without_none(each)) for name, each in fields.items()}
    lists = {name: each for name, each in elements.items() if each is not None}
    singles = {**fields, **lists}
    return FileRules(
        leaf.takes if isinstance(leaf, MediaLeaf) else _never,
        frozenset(name for name, each in singles.items() if _is_file(each)),
        frozenset(name for name, each in singles.items() if _is_text(each)),
        frozenset(lists),
    )


def prepare_readers(type_: Any) -> None:
    """Import what reads the files within *type_*.

    :raises ImportError: it is not installed.
    """
    for each in types_within(type_):
        if isinstance(leaf := leaf_of(each), MediaLeaf):
            leaf.prepare()


def _is_file(type_: Any) -> bool:
    return isinstance(leaf_of(without_none(type_)), MediaLeaf)


def _is_text(type_: Any) -> bool:
    """Whether *type_* is ``Text``, or may be."""
    origin = typing.get_origin(type_)
    if origin is typing.Annotated:
        return any(isinstance(each, TextPart) for each in type_.__metadata__)
    is_around = origin in (typing.Union, UnionType, typing.Required, typing.NotRequired)
    return is_around and any(map(_is_text, typing.get_args(type_)))
