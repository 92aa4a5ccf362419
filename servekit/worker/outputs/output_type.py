# SPDX-License-Identifier: Apache-2.0
"""Finds the annotation that describes the outputs which clients get."""

import types
import typing
from typing import Any, NamedTuple

from servekit.errors import BootError
from servekit.service.base import Done, Service
from servekit.worker.inputs.annotations import BatchTypes, place_of, streaming_method
from servekit.worker.inputs.type_hints import batch_of, is_union, shown_type
from servekit.worker.inputs.type_tree import element_type
from servekit.worker.outputs.output_media import OutputMedia, output_media

__all__ = ["OutputType", "output_type_of"]


class OutputType(NamedTuple):
    """One output of a service."""

    type: Any  #: ``Any`` where the annotations say nothing
    place: str = ""  #: where that is written
    media: OutputMedia | None = None  #: that it holds


def output_type_of(service: Service, method: BatchTypes, *, has_rows: bool = False) -> OutputType:
    """Return the outputs of *service*.

    :param method: the annotations of the method that answers. If ``postprocess`` or ``step``
        returns media, its own annotation counts.
    :param has_rows: an output has arrays of a signature.
    :raises BootError: its media cannot be written as they are declared, or it returns arrays
        besides.
    """
    kind = type(service)
    type_, name, place = method.output, method.name, method.place
    if kind.postprocess is not Service.postprocess:
        type_ = _returned(kind.postprocess)
        name, place = f"{kind.__name__}.postprocess", place_of(kind.postprocess)
    elif streaming_method(service) == "admit":
        step = getattr(kind, "step")  # noqa: B009 - only services with slots have it
        type_, name, place = _output_of_step(step), f"{kind.__name__}.step", place_of(step)
    media = output_media(type_, name, place)
    if media is not None and (has_rows or (service.signature or {}).get("outputs")):
        raise BootError(
            f"{name}: returns {shown_type(type_)}, and its outputs are arrays by the "
            f"signature; leave outputs out of [signature]{place}"
        )
    if media is None and type_ is not method.output:
        return OutputType(Any, method.place)
    return OutputType(type_, place, media)


def _output_of_step(step: Any) -> Any:
    """Return the type of the outputs in what *step* returns: an entry for each slot."""
    entry = batch_of(_returned(step))
    members = typing.get_args(entry) if is_union(entry) else [entry]
    outputs = [each for each in members if not _is_no_output(each)]
    return (element_type(outputs[0]) or outputs[0]) if len(outputs) == 1 else Any


def _is_no_output(member: Any) -> bool:
    return isinstance(member, type) and issubclass(member, (types.NoneType, Done, Exception))


def _returned(method: Any) -> Any:
    """Return the annotated result of *method*; ``Any`` if it cannot be resolved."""
    try:
        hints = typing.get_type_hints(method, include_extras=True)
    except Exception:  # noqa: BLE001 - an author's annotations may raise anything
        hints = {}
    return hints.get("return", Any)
