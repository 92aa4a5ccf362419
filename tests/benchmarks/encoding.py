# SPDX-License-Identifier: Apache-2.0
"""The forms in which an array travels, the same bytes for every server that reads the form."""

import io
import json
from collections.abc import Callable
from typing import Any, Final

import msgpack
import numpy as np

Array = np.ndarray[Any, Any]
ARRAY: Final = 78  #: the msgpack extension of an array: [dtype, shape, elements]

CONTENT_TYPES: Final = {
    "json": "application/json",
    "msgpack": "application/msgpack",
    "npy": "application/x-npy",
    "raw": "application/octet-stream",
}


def to_json(values: Array) -> bytes:
    """Return ``{"x":[...]}`` without a space."""
    return json.dumps({"x": values.tolist()}, separators=(",", ":")).encode()


def to_msgpack(values: Array) -> bytes:
    payload = msgpack.packb([values.dtype.name, list(values.shape), values.tobytes()])
    return bytes(msgpack.packb({"x": msgpack.ExtType(ARRAY, payload)}))


def to_npy(values: Array) -> bytes:
    file = io.BytesIO()
    np.save(file, values, allow_pickle=False)
    return file.getvalue()


def to_raw(values: Array) -> bytes:
    """Return the elements, little-endian."""
    return values.astype("<f4").tobytes()


def to_v2(values: Array) -> bytes:
    """Return the request of the Open Inference Protocol: a tensor of one row."""
    tensor = {"name": "x", "shape": [1, values.size], "datatype": "FP32", "data": values.tolist()}
    return json.dumps({"inputs": [tensor]}, separators=(",", ":")).encode()


ENCODERS: Final[dict[str, Callable[[Array], bytes]]] = {
    "json": to_json,
    "msgpack": to_msgpack,
    "npy": to_npy,
    "raw": to_raw,
}
