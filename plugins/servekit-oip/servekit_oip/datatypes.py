# SPDX-License-Identifier: Apache-2.0
"""The datatypes of tensors, as the protocol and signatures name them. Imports no numpy."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["BYTES", "CONTENT", "DATATYPES", "OF_DTYPE", "Datatype"]


class Datatype(NamedTuple):
    """One datatype."""

    name: str  #: in requests: ``FP32``
    dtype: str  #: in signatures: ``float32``
    size: int  #: bytes of an element; 0 for BYTES, each of which has its own length
    in_config: str  #: in the configuration of a model: ``TYPE_FP32``


BYTES: Final = Datatype("BYTES", "str", 0, "TYPE_STRING")
#: the same with elements that are any bytes, for models without a signature
CONTENT: Final = BYTES._replace(dtype="bytes")
_ALL: Final = (
    Datatype("BOOL", "bool", 1, "TYPE_BOOL"),
    Datatype("UINT8", "uint8", 1, "TYPE_UINT8"),
    Datatype("UINT16", "uint16", 2, "TYPE_UINT16"),
    Datatype("UINT32", "uint32", 4, "TYPE_UINT32"),
    Datatype("UINT64", "uint64", 8, "TYPE_UINT64"),
    Datatype("INT8", "int8", 1, "TYPE_INT8"),
    Datatype("INT16", "int16", 2, "TYPE_INT16"),
    Datatype("INT32", "int32", 4, "TYPE_INT32"),
    Datatype("INT64", "int64", 8, "TYPE_INT64"),
    Datatype("FP16", "float16", 2, "TYPE_FP16"),
    Datatype("BF16", "bfloat16", 2, "TYPE_BF16"),  # a worker of such a model has ml_dtypes
    Datatype("FP32", "float32", 4, "TYPE_FP32"),
    Datatype("FP64", "float64", 8, "TYPE_FP64"),
    BYTES,
)
DATATYPES: Final = {each.name: each for each in _ALL}
OF_DTYPE: Final = {each.dtype: each for each in _ALL}
