# SPDX-License-Identifier: Apache-2.0
"""Inputs and outputs that pass a predictor as objects: an envelope reads and writes them."""

import sys
from typing import Any, Final

from msgspec import Struct

__all__ = ["LISTS", "OBJECT", "DecodedInput", "with_known_arrays"]

#: in the place of a media type, ``Content-Type`` of a ``DecodedInput`` or ``Accept`` of an output
#: that is not to be written; no header of a client can have a NUL
OBJECT: Final = b"\0object"
#: ``Content-Type`` of a ``DecodedInput`` whose value is that of a ``ListInput``
LISTS: Final = b"\0lists"


class DecodedInput(Struct, frozen=True, eq=False):
    """Stands for the body of an item whose input has been decoded."""

    value: Any
    body: bytes | memoryview  #: the bytes that it was decoded from


def with_known_arrays(output: Any) -> Any:
    """Return *output* with arrays of NumPy for those of other libraries, all of which import it."""
    if "numpy" not in sys.modules:
        return output
    from servekit.worker.codecs.foreign_arrays import known_arrays  # imports numpy

    return known_arrays(output)
