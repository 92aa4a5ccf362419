# SPDX-License-Identifier: Apache-2.0
"""Inputs typed by the annotation of ``predict``: ``batch: list[T]``."""

import functools
import inspect
import operator
import types
import typing
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import PurePath
from typing import Any, NamedTuple

from servekit.errors import BootError
from servekit.service import Service

__all__ = ["BatchTypes", "batch_types", "stream_types", "types_of"]

ITERATORS = (Generator, Iterable, Iterator)


class BatchTypes(NamedTuple):
    """The types of one input and of one output; ``Any`` where nothing is said."""

    input: Any
    output: Any
    place: str = ""  #: where they are said, for an error: `` (service.py:12)``

    @property
    def are_known(self) -> bool:
        """Whether anything is said of either."""
        return not (self.input is Any and self.output is Any)


def batch_types(service: Service) -> BatchTypes:
    """Read the annotations of ``predict``.

    :raises BootError: there is no ``predict``, or ``types_of`` cannot read it.
    """
    predict = type(service).predict
    if predict is Service.predict:
        raise BootError(f"{type(service).__name__} has no predict()")
    return types_of(predict, f"{type(service).__name__}.predict")


def types_of(method: Callable[..., Any], name: str) -> BatchTypes:
    """Read the annotations of a method that takes a batch.

    :param name: of the method, for errors.
    :raises BootError: one names what does not exist where the service is defined.
    """
    given, got, place = _annotations(method, name, "batch, write def predict(self, batch)")
    return BatchTypes(_element(given), _element(got), place)


def stream_types(service: Service, first: str) -> BatchTypes:
    """Read the annotations of the method called *first*, which takes one input.

    :raises BootError: one names what does not exist where the service is defined.
    """
    kind = type(service)
    write = f"input, write def {first}(self, value)"
    given, got, place = _annotations(getattr(kind, first), f"{kind.__name__}.{first}", write)
    return BatchTypes(Any if given is None else given, _yielded(got), place)


def _annotations(method: Callable[..., Any], name: str, wanted: str) -> tuple[Any, Any, str]:
    """Return what is said of its parameter and of what it returns, and where."""
    place = _place(method)
    if inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
        raise BootError(f"{name}: is async; write a plain def, it has the process to itself{place}")
    try:
        hints = typing.get_type_hints(method, include_extras=True)
        parameters = list(inspect.signature(method).parameters)
    except Exception as error:  # noqa: BLE001 - an author's annotations may raise anything
        reason = f"{type(error).__name__}: {error}"
        raise BootError(f"{name}: cannot resolve its annotations ({reason}){place}") from None
    if len(parameters) < 2:
        raise BootError(f"{name}: takes no {wanted}{place}")
    return hints.get(parameters[1]), hints.get("return"), place


def _yielded(annotation: Any) -> Any:
    """Return the ``T`` of ``Iterator[T]``; what ``admit`` returns is a slot, and no output."""
    arguments = typing.get_args(annotation)
    return arguments[0] if typing.get_origin(annotation) in ITERATORS and arguments else Any


def _place(method: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(method), "__code__", None)
    return f" ({PurePath(code.co_filename).name}:{code.co_firstlineno})" if code else ""


def _element(annotation: Any) -> Any:
    """Return the ``T`` of ``list[T]``, without the ``InputError`` that may take its place."""
    arguments = typing.get_args(annotation)
    if typing.get_origin(annotation) is not list or len(arguments) != 1:
        return Any
    return _without_errors(arguments[0])


def _without_errors(type_: Any) -> Any:
    if typing.get_origin(type_) not in (types.UnionType, typing.Union):
        return type_
    members = [
        member
        for member in typing.get_args(type_)
        if not (isinstance(member, type) and issubclass(member, Exception))
    ]
    return functools.reduce(operator.or_, members) if members else Any
