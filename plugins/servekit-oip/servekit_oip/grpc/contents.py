# SPDX-License-Identifier: Apache-2.0
"""Single tensors of messages: elements that are not raw, and outputs that clients want."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from servekit.errors import InputError

if TYPE_CHECKING:
    from servekit_oip.datatypes import Datatype

__all__ = ["SHARED_MEMORY", "asked_for", "values_of"]

CLASSIFICATION: Final = "classification"
SHARED_MEMORY: Final = "shared_memory_region"

#: by datatype, the field of InferTensorContents; 16-bit floats have none
CONTENTS: Final = {
    "BOOL": "bool_contents",
    **dict.fromkeys(("INT8", "INT16", "INT32"), "int_contents"),
    "INT64": "int64_contents",
    **dict.fromkeys(("UINT8", "UINT16", "UINT32"), "uint_contents"),
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}


def values_of(tensor: Any, datatype: Datatype) -> list[Any]:
    """Return the elements in the contents of *tensor*.

    :raises InputError: 16-bit floats are only sent raw.
    """
    if datatype.name not in CONTENTS:
        raise InputError(f"input {tensor.name!r}: {datatype.name} needs raw_input_contents")
    return list(getattr(tensor.contents, CONTENTS[datatype.name]))


def asked_for(output: Any) -> tuple[str, int]:
    """Return the name of an *output* that a client wants, and of how many classes; 0: all elements.

    :raises InputError: it cannot be sent so. The name is not looked at.
    """
    if SHARED_MEMORY in output.parameters:
        raise InputError(f"output {output.name!r}: shared memory is not supported")
    if CLASSIFICATION not in output.parameters:
        return output.name, 0
    parameter = output.parameters[CLASSIFICATION]
    if parameter.WhichOneof("parameter_choice") != "int64_param":
        raise InputError(f"output {output.name!r}: classification is not an int64_param")
    if parameter.int64_param < 0:
        raise InputError(f"output {output.name!r}: classification is below 0")
    return output.name, parameter.int64_param
