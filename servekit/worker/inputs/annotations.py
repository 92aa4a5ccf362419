# SPDX-License-Identifier: Apache-2.0
"""Reads the methods of a service: how it is called, and the types of its inputs and outputs."""

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

__all__ = [
    "BatchTypes",
    "place_of",
    "service_types",
    "streaming_method",
    "types_of",
]


class BatchTypes(NamedTuple):
    """The types of one input and of one output; ``Any`` where the annotations say nothing."""

    input: Any
    output: Any
    place: str = ""  #: where they are written, for an error: `` (service.py:12)``
    name: str = ""  #: the name of the method
    mapping: str = ""  #: the annotation of a mapping of arrays, which needs a signature


def streaming_method(service: Service) -> str | None:
    """Return the method that gets one input of *service*; ``None`` if it answers batches.

    :raises BootError: it has several methods that could answer.
    """
    kind = type(service)
    has_predict = kind.predict is not Service.predict
    if inspect.isgeneratorfunction(kind.predict) or inspect.isasyncgenfunction(kind.predict):
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


def service_types(service: Service) -> BatchTypes:
    """Read the annotations of the method that answers, or the types that ``load`` has set.

    :raises BootError: there is no such method, or its annotations contradict how it is called.
    """
    kind = type(service)
    if first := streaming_method(service):
        types = _stream_types(kind, first)
    elif kind.predict is Service.predict:
        raise BootError(f"{kind.__name__} has no predict()")
    else:
        called = getattr(kind.predict, "__name__", "predict")
        types = types_of(kind.predict, f"{kind.__name__}.{called}")
    for side, own in (("input", service.input_type), ("output", service.output_type)):
        if own is not None and getattr(types, side) is not Any:
            raise BootError(f"{types.name}: annotated, and {side}_type is set; keep one of the two")
        types = types if own is None else types._replace(**{side: own})
    return types


def types_of(method: Callable[..., Any], name: str) -> BatchTypes:
    """Read the annotations of a method that takes a batch, or one input if it is a coroutine.

    :param name: of the method, for errors.
    :raises BootError: one cannot be resolved, or is neither a list nor a mapping.
    """
    if inspect.iscoroutinefunction(method):
        return _types_of_coroutine(method, name)
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
            f"{name}: returns {shown}, expected a list with an output for each input; "
            f"write -> list[{one}]{place}"
        )
    mapping = ""
    if taken is MAPPING:
        mapping = f"{parameter}: {shown_type(given)}"
    elif returned is MAPPING:
        mapping = f"-> {shown_type(got)}"
    return BatchTypes(_element(taken), _element(returned), place, name, mapping)


def _types_of_coroutine(method: Callable[..., Any], name: str) -> BatchTypes:
    """Read the annotations of an async method, which takes one input and returns its output."""
    wanted = "input, write async def predict(self, value)"
    _, given, got, place = _annotations(method, name, wanted)
    output = Any if got is None else without_errors(got)
    return BatchTypes(Any if given is None else given, output, place, name)


def _element(batch: Any) -> Any:
    return Any if batch is MAPPING or batch is ROWS else without_errors(batch)


def _stream_types(kind: type[Service], first: str) -> BatchTypes:
    """Read the annotations of the method called *first*, which takes one input."""
    method = getattr(kind, first)
    called = getattr(method, "__name__", first)  # an endpoint's stands for ``predict``
    name, wanted = f"{kind.__name__}.{called}", f"input, write def {called}(self, value)"
    _, given, got, place = _annotations(method, name, wanted)
    yielded = Any if first == "admit" else yielded_of(got)  # ``admit`` returns a slot
    if yielded is None:
        raise BootError(
            f"{name}: returns {shown_type(got)}, and outputs are yielded one by one; "
            f"write -> Iterator[{shown_type(got)}]{place}"
        )
    return BatchTypes(Any if given is None else given, without_errors(yielded), place, name)


def _annotations(method: Callable[..., Any], name: str, wanted: str) -> tuple[str, Any, Any, str]:
    """Return the name of the parameter, its annotation, that of the result, and their place."""
    place = place_of(method)
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
