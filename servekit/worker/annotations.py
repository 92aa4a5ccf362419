# SPDX-License-Identifier: Apache-2.0
"""Inputs typed by the annotation of ``predict``: ``batch: list[T]``."""

import functools
import inspect
import operator
import types
import typing
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from servekit.errors import BootError, InputError
from servekit.service import Service
from servekit.worker.codecs.json import decode_json, read_typed_json
from servekit.worker.inputs import owned, refusal
from servekit.worker.mistakes import mistakes, name_mistake

__all__ = ["BatchTypes", "TypedInput", "batch_types"]


class BatchTypes(NamedTuple):
    """The types of one input and of one output; ``Any`` where nothing is said."""

    input: Any
    output: Any

    @property
    def are_known(self) -> bool:
        """Whether anything is said of either."""
        return not (self.input is Any and self.output is Any)


def batch_types(service: Service) -> BatchTypes:
    """Read the annotations of ``predict``.

    :raises BootError: one names what does not exist where the service is defined.
    """
    predict = type(service).predict
    where = f"{type(service).__name__}.predict"
    if inspect.iscoroutinefunction(predict):
        raise BootError(f"{where}: is async; write a plain def, it has the process to itself")
    if predict is Service.predict:
        raise BootError(f"{type(service).__name__} has no predict()")
    try:
        hints = typing.get_type_hints(predict, include_extras=True)
        parameters = list(inspect.signature(predict).parameters)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise BootError(f"{where}: cannot resolve its annotations ({reason})") from error
    if len(parameters) < 2:
        raise BootError(f"{where}: takes no batch, write def predict(self, batch)")
    return BatchTypes(_element(hints.get(parameters[1])), _element(hints.get("return")))


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


class TypedInput:
    """Checks every input against a type; a batch is a list of instances."""

    def __init__(self, type_: Any) -> None:
        """Compile the decoder of *type_*.

        :raises BootError: msgspec cannot decode it.
        """
        self._type = type_
        try:
            self._decode = msgspec.json.Decoder(type_).decode
        except Exception as error:
            name = getattr(type_, "__name__", type_)
            raise BootError(f"predict: inputs cannot be decoded into {name}: {error}") from error

    def decode_json(self, body: bytes) -> Any:
        """Decode *body* straight into the type.

        :raises InputError: it is not of the type.
        """
        try:
            return read_typed_json(self._decode, body)
        except msgspec.ValidationError as error:
            raise self._refused(decode_json(body), error) from None

    def check(self, value: Any) -> Any:
        """Convert a decoded value.

        :raises InputError: it is not of the type.
        """
        try:
            return msgspec.convert(owned(value), self._type, str_keys=True)
        except msgspec.ValidationError as error:
            raise self._refused(value, error) from None
        except RecursionError:
            raise InputError("nested too deep") from None

    def _refused(self, value: Any, error: msgspec.ValidationError) -> InputError:
        """Return the refusal that names every field, or the one that msgspec stumbled over."""
        found = mistakes(owned(value), self._type)
        found = found or [name_mistake(error)]
        return refusal([(path.removeprefix("."), message) for path, message in found])

    def batches(self, inputs: Sequence[Any]) -> Iterable[tuple[None, Any]]:
        """Yield one list."""
        return ((None, inputs),)
