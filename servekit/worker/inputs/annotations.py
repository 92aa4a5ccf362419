# SPDX-License-Identifier: Apache-2.0
"""Inputs and outputs typed by the annotations of ``predict``: ``batch: list[T]``."""

import inspect
import typing
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, NamedTuple

from servekit.errors import BootError
from servekit.service.base import Service
from servekit.worker.inputs.type_hints import (
    MAPPING,
    ROWS,
    batch_of,
    element_of,
    shown_type,
    without_errors,
    yielded_of,
)

__all__ = ["BatchTypes", "batch_types", "place_of", "stream_types", "streaming_method", "types_of"]


class BatchTypes(NamedTuple):
    """The types of one input and of one output; ``Any`` where nothing is said."""

    input: Any
    output: Any
    place: str = ""  #: where they are said, for an error: `` (service.py:12)``
    name: str = ""  #: of the method
    mapping: str = ""  #: what is annotated as a mapping of arrays, which needs a signature

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
    return types_of(predict, f"{type(service).__name__}.{getattr(predict, '__name__', 'predict')}")


def types_of(method: Callable[..., Any], name: str) -> BatchTypes:
    """Read the annotations of a method that takes a batch.

    :param name: of the method, for errors.
    :raises BootError: one names what does not exist where the service is defined, or what is
        neither a list nor a mapping.
    """
    parameter, given, got, place = _annotations(
        method, name, "batch, write def predict(self, batch)"
    )
    taken, returned = batch_of(given), batch_of(got)
    if taken is None or taken is ROWS:
        shown, one = shown_type(given), shown_type(element_of(given))
        raise BootError(
            f"{name}: {parameter}: {shown}, and a batch is a list; "
            f"write {parameter}: list[{one}]{place}"
        )
    if returned is None:
        shown, one = shown_type(got), shown_type(element_of(got))
        raise BootError(
            f"{name}: returns {shown}, and a batch is answered by a list, an output for each "
            f"input; write -> list[{one}]{place}"
        )
    mapping = ""
    if taken is MAPPING:
        mapping = f"{parameter}: {shown_type(given)}"
    elif returned is MAPPING:
        mapping = f"-> {shown_type(got)}"
    return BatchTypes(_element(taken), _element(returned), place, name, mapping)


def _element(batch: Any) -> Any:
    return Any if batch is MAPPING or batch is ROWS else without_errors(batch)


def stream_types(service: Service, first: str) -> BatchTypes:
    """Read the annotations of the method called *first*, which takes one input.

    :raises BootError: one names what does not exist where the service is defined, or a method
        that yields outputs is annotated as one that does not.
    """
    kind = type(service)
    write, name = f"input, write def {first}(self, value)", f"{kind.__name__}.{first}"
    _, given, got, place = _annotations(getattr(kind, first), name, write)
    yielded = Any if first == "admit" else yielded_of(got)  # which returns a slot, and no output
    if yielded is None:
        raise BootError(
            f"{name}: returns {shown_type(got)}, and outputs are yielded one by one; "
            f"write -> Iterator[{shown_type(got)}]{place}"
        )
    return BatchTypes(Any if given is None else given, without_errors(yielded), place, name)


def streaming_method(service: Service) -> str | None:
    """Return the method that gets one input of *service*; ``None`` if it answers batches.

    :raises BootError: it contradicts itself.
    """
    kind = type(service)
    has_predict = kind.predict is not Service.predict
    if has_predict and inspect.isgeneratorfunction(kind.predict):
        return "predict"
    found = [
        first
        for first, methods in {"stream": ("stream",), "admit": ("admit", "step")}.items()
        if all(callable(getattr(kind, name, None)) for name in methods)
    ]
    if len(found) + has_predict > 1:
        names = " and ".join(["predict"] * has_predict + found)
        raise BootError(f"{kind.__name__}: has {names}; keep one of them")
    return found[0] if found else None


def _annotations(method: Callable[..., Any], name: str, wanted: str) -> tuple[str, Any, Any, str]:
    """Return the name of its parameter, what is said of it and of what it returns, and where."""
    place = place_of(method)
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
    return parameters[1], hints.get(parameters[1]), hints.get("return"), place


def place_of(method: Callable[..., Any]) -> str:
    """Return where *method* is written, `` (service.py:12)``; "" if it is not Python."""
    code = getattr(inspect.unwrap(method), "__code__", None)
    return f" ({PurePath(code.co_filename).name}:{code.co_firstlineno})" if code else ""
