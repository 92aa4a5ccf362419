# SPDX-License-Identifier: Apache-2.0
"""Reads type hints: what is behind an alias, the members of a union, the element of a batch."""

import functools
import operator
import types
import typing
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    MutableSequence,
    Sequence,
)
from typing import Any, Final, TypeVar

import msgspec

__all__ = [
    "MAPPING",
    "QUALIFIERS",
    "ROWS",
    "bare",
    "batch_of",
    "element_of",
    "is_union",
    "members",
    "once_for_each",
    "peeled",
    "shown_type",
    "takes_none",
    "without_errors",
    "yielded_of",
]

MAPPING: Final = object()  #: a batch is a mapping of names to arrays, as with a signature
ROWS: Final = object()  #: a batch is an array with a row for each input
UNSAID: Final = (None, Any, object, typing.Never, typing.NoReturn)
LISTS: Final = (list, Sequence, MutableSequence, Collection, Iterable)
ASYNC_ITERATORS: Final = (AsyncGenerator, AsyncIterator, AsyncIterable)
ITERATORS: Final = (*LISTS, Generator, Iterator, *ASYNC_ITERATORS)
#: around types of the fields of a ``TypedDict``; Python 3.13 added the last one
QUALIFIERS: Final = tuple(
    getattr(typing, name)
    for name in ("Required", "NotRequired", "ReadOnly")
    if hasattr(typing, name)
)
AROUND: Final = (typing.Annotated, typing.Final, *QUALIFIERS)
#: members of a union that stand for a missing value
NO_VALUES: Final = (None, types.NoneType, msgspec.UnsetType)

T = TypeVar("T")


def once_for_each(read: Callable[[Any], T]) -> Callable[[Any], T]:
    """Call *read* only once for each type, unless the metadata of the type cannot be hashed."""
    kept = functools.cache(read)

    @functools.wraps(read)
    def known(type_: Any) -> T:
        try:
            return kept(type_)
        except TypeError:
            return read(type_)

    return known


def bare(annotation: Any) -> Any:
    """Return *annotation* without the aliases, the metadata and the qualifiers around it."""
    while (inner := peeled(annotation)) is not annotation:
        annotation = inner
    return annotation


def peeled(annotation: Any) -> Any:
    """Return *annotation* without the outermost of these; unchanged if there is none."""
    if typing.get_origin(annotation) in AROUND:
        return typing.get_args(annotation)[0]
    if hasattr(annotation, "__supertype__"):  # a NewType
        return annotation.__supertype__
    if hasattr(annotation, "__value__") and not isinstance(annotation, type):  # type X = ...
        return annotation.__value__
    return annotation


def is_union(type_: Any) -> bool:
    """Whether *type_* is ``X | Y``, ``Union[X, Y]`` or ``Optional[X]``."""
    return typing.get_origin(type_) in (typing.Union, types.UnionType)


def members(type_: Any) -> list[Any]:
    """Return the bare types that *type_* may be, other than ``None`` and ``UNSET``."""
    type_ = bare(type_)
    if is_union(type_):
        return [member for each in typing.get_args(type_) for member in members(each)]
    return [] if any(type_ is each for each in NO_VALUES) else [type_]


@once_for_each
def takes_none(type_: Any) -> bool:
    """Whether *type_* is ``None``, or a union with it."""
    type_ = bare(type_)
    if is_union(type_):
        return any(map(takes_none, typing.get_args(type_)))
    return type_ is None or type_ is types.NoneType


def batch_of(annotation: Any) -> Any:
    """Return the ``T`` of ``list[T]``, ``MAPPING`` or ``ROWS``; ``None`` if it is not a batch.

    ``Any`` stands for an annotation that says nothing. The members of a union have to agree.
    """
    annotation = bare(annotation)
    if _says_nothing(annotation):
        return Any
    origin = typing.get_origin(annotation) or annotation
    if is_union(annotation):
        batches = [batch_of(each) for each in typing.get_args(annotation)]
        found = [each for each in batches if each is not None]
        return None if not found else found[0] if len(found) == 1 else Any
    if origin in LISTS:
        return _argument(annotation)
    if not isinstance(origin, type):
        return None
    if issubclass(origin, Mapping) or typing.is_typeddict(origin):
        return MAPPING
    if issubclass(origin, list):
        return Any
    bases = {(base.__module__, base.__name__) for base in origin.__mro__}
    return ROWS if ("numpy", "ndarray") in bases else None


def yielded_of(annotation: Any) -> Any:
    """Return the ``T`` of ``Iterator[T]``, ``Any`` if it says nothing; else ``None``."""
    annotation = bare(annotation)
    if _says_nothing(annotation):
        return Any
    origin = typing.get_origin(annotation) or annotation
    if origin in ITERATORS:
        return _argument(annotation)
    is_iterable = isinstance(origin, type) and issubclass(origin, Iterable)
    return Any if is_iterable and not issubclass(origin, str | bytes | Mapping) else None


def element_of(annotation: Any) -> Any:
    """Return what a list was meant to hold: the ``T`` of ``tuple[T, ...]``, else all of it."""
    annotation = bare(annotation)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    is_other = origin in (tuple, set, frozenset) or origin in ITERATORS
    return arguments[0] if is_other and arguments else annotation


def without_errors(type_: Any) -> Any:
    """Return *type_* without the ``InputError`` that may stand in the place of an output."""
    if not is_union(type_):
        return type_
    found = [
        member
        for member in typing.get_args(type_)
        if not (isinstance(member, type) and issubclass(member, Exception))
    ]
    return functools.reduce(operator.or_, found) if found else Any


def shown_type(type_: Any) -> str:
    """Return *type_* as its author writes it."""
    if isinstance(type_, type) and not typing.get_args(type_):
        return "None" if type_ is types.NoneType else type_.__name__
    return str(type_).replace("typing.", "").replace("collections.abc.", "")


def _says_nothing(annotation: Any) -> bool:
    return isinstance(annotation, typing.TypeVar) or any(annotation is each for each in UNSAID)


def _argument(annotation: Any) -> Any:
    arguments = typing.get_args(annotation)
    if not arguments:
        return Any
    return types.NoneType if arguments[0] is None else arguments[0]
