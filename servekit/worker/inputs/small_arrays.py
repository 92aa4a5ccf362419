# SPDX-License-Identifier: Apache-2.0
"""The short way of small arrays in JSON: lists that msgspec has checked in full.

numpy takes longer to make an array of four numbers than msgspec to read them. So they stay
lists, and the whole batch becomes one array. What does not pass goes the long way, which says why.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from servekit.worker.inputs.tensors import TensorReader

__all__ = ["ReadLists", "small_readers"]

MOST: Final = 1024  #: elements of one array; for larger ones the lists cost more than they save

#: a JSON text to the lists of each input
ReadLists = Callable[[bytes], tuple[Any, ...]]


def small_readers(tensors: Sequence[TensorReader]) -> dict[bytes, ReadLists]:
    """Return readers of JSON texts by their first character; none if the arrays are not small.

    They raise ``ValueError`` if a text is not exactly what is declared.
    """
    types = [tensor.exact for tensor in tensors]
    if None in types or any(tensor.size > MOST for tensor in tensors):
        return {}
    readers = {b"{": _object_reader([tensor.name for tensor in tensors], types)}
    if len(tensors) == 1 and tensors[0].shape:
        readers[b"["] = partial(_read_alone, msgspec.json.Decoder(types[0]).decode)
    return readers


def _read_alone(decode: Callable[[bytes], Any], body: bytes) -> tuple[Any, ...]:
    return (decode(body),)


def _object_reader(names: Sequence[str], types: Sequence[Any]) -> ReadLists:
    fields = [
        (f"input_{place}", type_, msgspec.field(name=name))
        for place, (name, type_) in enumerate(zip(names, types, strict=True))
    ]
    inputs = msgspec.defstruct("Inputs", fields, forbid_unknown_fields=True, gc=False)
    decode = msgspec.json.Decoder(inputs).decode
    values = msgspec.structs.astuple
    return lambda body: values(decode(body))
