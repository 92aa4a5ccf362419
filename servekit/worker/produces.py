# SPDX-License-Identifier: Apache-2.0
"""Which media types a service may answer in: for its description, and for every ``Accept``."""

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from servekit.service import Service
from servekit.worker.codecs.table import CodecTable
from servekit.worker.models import is_model

__all__ = ["OCTET_STREAM", "produces"]

OCTET_STREAM: Final = "application/octet-stream"
#: built-in media types that hold one kind of output only; the others hold nearly all
KIND_OF: Final = {OCTET_STREAM: "bytes", "text/plain": "text", "application/x-npy": "array"}
ANY: Final = frozenset(KIND_OF.values())
NONE: Final[frozenset[str]] = frozenset()

#: the first that an annotated type derives from decides
KIND_OF_TYPE: Final = (
    ((bytes, bytearray, memoryview), frozenset({"bytes"})),
    (str, frozenset({"text"})),
    ((int, float, list, tuple), frozenset({"array"})),
    ((dict, set, frozenset, types.NoneType, msgspec.Struct), NONE),
)


def produces(
    service: Service, signature: Mapping[str, Any] | None, output_type: Any, table: CodecTable
) -> list[str]:
    """Return the media types of *table* that can hold what *service* says that it gives.

    Bytes whose format shows (a PNG) go out under its media type, which is not listed.

    :param output_type: of its ``predict``; ``Any`` is unknown.
    """
    if type(service).postprocess is not Service.postprocess:
        kinds = ANY
    elif signature is not None:
        kinds = _kinds_of_tensors(signature["outputs"])
    else:
        kinds = _kinds_of_type(output_type)
    return [
        name
        for name in table.written
        if not table.is_builtin(name) or KIND_OF.get(name) in (None, *kinds)
    ]


def _kinds_of_tensors(outputs: list[Mapping[str, Any]]) -> frozenset[str]:
    if not outputs:
        return ANY  # nothing is said
    if len(outputs) > 1:
        return NONE  # an object of them
    return frozenset({"text" if outputs[0]["dtype"] == "str" else "array"})


def _kinds_of_type(type_: Any) -> frozenset[str]:
    """Return what values of *type_* may be; everything if it is a type we do not know."""
    origin = typing.get_origin(type_)
    if origin in (typing.Union, types.UnionType):
        return NONE.union(*map(_kinds_of_type, typing.get_args(type_)))
    if origin is typing.Annotated:
        return _kinds_of_type(typing.get_args(type_)[0])
    known = origin or type_
    if not isinstance(known, type):
        return ANY
    for bases, kinds in KIND_OF_TYPE:
        if issubclass(known, bases):
            return kinds
    if known.__module__ == "numpy":
        return frozenset({"array"})
    is_object = dataclasses.is_dataclass(known) or typing.is_typeddict(known) or is_model(known)
    return NONE if is_object else ANY
