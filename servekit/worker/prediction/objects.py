# SPDX-License-Identifier: Apache-2.0
"""Inputs and outputs that pass a predictor as objects: an envelope reads and writes them."""

from typing import Any, Final, NamedTuple

__all__ = ["OBJECT", "DecodedInput"]

#: in the place of a media type, ``Content-Type`` of a ``DecodedInput`` or ``Accept`` of an output
#: that is not to be written; no header of a client can have a NUL
OBJECT: Final = b"\0object"


class DecodedInput(NamedTuple):
    """Stands for the body of an item whose input has been decoded."""

    value: Any
    body: bytes | memoryview  #: the bytes that it was decoded from
